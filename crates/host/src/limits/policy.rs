//! Where a guest may connect and listen: an allow-list, empty by default.
//!
//! A connection is checked twice. First the name that the guest gave, before anything is looked up.
//! Then every address that the name stands for: a rule for a name admits public addresses only, so
//! whoever controls that name's DNS cannot point it at the machine's loopback, the local network or
//! a cloud's metadata service. Such addresses need a rule of their own.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Where a guest may connect and listen.
///
/// # Examples
/// ```
/// use mainspring_host::NetworkPolicy;
///
/// let mut policy = NetworkPolicy::default();
/// policy.allow_connect("db.example.com:5432")?;
/// policy.allow_connect("10.0.0.0/8:5432")?;
/// policy.allow_listen("127.0.0.1:*")?;
/// assert!(policy.may_look_up("DB.example.com", 5432));
/// assert!(!policy.may_look_up("example.com", 5432));
/// # Ok::<(), mainspring_host::BadRule>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkPolicy {
    connect: Vec<Rule>,
    listen: Vec<Rule>,
}

/// A rule: hosts and ports, written as `host:port`.
///
/// The host is a name (`db.example.com`), all names below one (`*.example.com`), an address or
/// network (`10.0.0.0/8`, `[fd00::/8]`), `loopback`, or `*`. The port is a number, a range
/// (`8000-8999`) or `*`. `any` is short for `*:*`, `loopback` for `loopback:*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    host: HostPattern,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Any,
    Loopback,
    Name(String),
    Below(String),
    Network(IpAddr, u8),
}

/// A rule that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{rule}` is not a network rule: {reason}; write host:port, such as db.example.com:5432, 10.0.0.0/8:*, loopback or any"
)]
pub struct BadRule {
    rule: String,
    reason: &'static str,
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Rule, BadRule> {
        parse(text).map_err(|reason| BadRule { rule: text.into(), reason })
    }
}

fn parse(text: &str) -> Result<Rule, &'static str> {
    let all = 0..=u16::MAX;
    match text {
        "any" => return Ok(Rule { host: HostPattern::Any, ports: all }),
        "loopback" => return Ok(Rule { host: HostPattern::Loopback, ports: all }),
        _ => {}
    }
    let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    if bare.is_none() && host.contains(':') {
        return Err("an IPv6 address goes in brackets");
    }
    Ok(Rule { host: parse_host(bare.unwrap_or(host))?, ports: parse_ports(port)? })
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, &'static str> {
    let number = |text: &str| text.parse::<u16>().map_err(|_| "the port is not a number below 65536");
    match text.split_once('-') {
        _ if text == "*" => Ok(0..=u16::MAX),
        None => number(text).map(|port| port..=port),
        Some((low, high)) => {
            let (low, high) = (number(low)?, number(high)?);
            if low <= high { Ok(low..=high) } else { Err("the range of ports is empty") }
        }
    }
}

fn parse_host(text: &str) -> Result<HostPattern, &'static str> {
    match text {
        "" => return Err("it has no host"),
        "*" => return Ok(HostPattern::Any),
        "loopback" => return Ok(HostPattern::Loopback),
        _ => {}
    }
    let (address, bits) = text.split_once('/').map_or((text, None), |(text, bits)| (text, Some(bits)));
    if let Ok(address) = address.parse::<IpAddr>() {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits =
            bits.map_or(Ok(most), |bits| bits.parse::<u8>().map_err(|_| "the prefix is not a number"))?;
        if bits > most {
            return Err("the prefix is longer than the address");
        }
        return Ok(HostPattern::Network(address, bits));
    }
    if bits.is_some() {
        return Err("it is not a network");
    }
    let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || !name.bytes().all(valid) {
        return Err("the name has characters that names do not have");
    }
    let name = canonical_name(name);
    Ok(if below { HostPattern::Below(name) } else { HostPattern::Name(name) })
}

/// Names are compared without case and without the dot at the end.
fn canonical_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

impl Rule {
    fn allows_name(&self, name: &str, port: u16) -> bool {
        self.ports.contains(&port)
            && match &self.host {
                HostPattern::Any => true,
                HostPattern::Loopback => name == "localhost",
                HostPattern::Name(allowed) => name == allowed,
                HostPattern::Below(parent) => name
                    .strip_suffix(parent.as_str())
                    .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
                HostPattern::Network(..) => false,
            }
    }

    fn allows_address(&self, address: IpAddr, port: u16) -> bool {
        self.ports.contains(&port)
            && match &self.host {
                HostPattern::Any => true,
                HostPattern::Loopback => address.is_loopback(),
                // Whoever names localhost means this machine.
                HostPattern::Name(name) => name == "localhost" && address.is_loopback(),
                HostPattern::Below(_) => false,
                HostPattern::Network(network, bits) => is_within(address, *network, *bits),
            }
    }
}

/// Bits of an IPv6 address in front of the IPv4 address that it maps.
const MAPPED_BITS: u8 = 96;

/// Whether an address, in its canonical form, is one of a network.
///
/// A network of mapped addresses (`::ffff:10.0.0.0/104`) is the IPv4 network that they map. With a
/// prefix shorter than the part that makes them mapped it is an ordinary IPv6 network, whatever is
/// written behind the prefix, and no IPv4 address belongs to it.
fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (network, bits) = match (network.to_canonical(), bits.checked_sub(MAPPED_BITS)) {
        (IpAddr::V4(mapped), Some(bits)) if network.is_ipv6() => (mapped.into(), bits),
        _ => (network, bits),
    };
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            u32::from(address) & mask == u32::from(network) & mask
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            u128::from(address) & mask == u128::from(network) & mask
        }
        _ => false,
    }
}

impl NetworkPolicy {
    /// A policy that allows nothing.
    pub fn new() -> NetworkPolicy {
        NetworkPolicy::default()
    }

    /// Allows connections that match a [`Rule`].
    ///
    /// # Errors
    /// [`BadRule`].
    pub fn allow_connect(&mut self, rule: &str) -> Result<&mut NetworkPolicy, BadRule> {
        self.connect.push(rule.parse()?);
        Ok(self)
    }

    /// Allows listeners that match a [`Rule`]. Only rules for addresses match: a listener has no
    /// name.
    ///
    /// # Errors
    /// [`BadRule`].
    pub fn allow_listen(&mut self, rule: &str) -> Result<&mut NetworkPolicy, BadRule> {
        self.listen.push(rule.parse()?);
        Ok(self)
    }

    /// Whether `name` may be looked up in order to connect to `port`.
    pub fn may_look_up(&self, name: &str, port: u16) -> bool {
        let name = canonical_name(name);
        self.connect.iter().any(|rule| rule.allows_name(&name, port))
    }

    /// Whether `name` may be looked up in order to connect to some port.
    pub fn may_look_up_somewhere(&self, name: &str) -> bool {
        let name = canonical_name(name);
        self.connect.iter().any(|rule| rule.allows_name(&name, *rule.ports.start()))
    }

    /// Whether a guest that was allowed to look a name up may connect to an address that the name
    /// stands for.
    pub fn may_connect_resolved(&self, address: SocketAddr) -> bool {
        is_public(address.ip().to_canonical()) || self.may_connect(address)
    }

    /// Whether a guest that gave an address may connect to it.
    pub fn may_connect(&self, address: SocketAddr) -> bool {
        allows(&self.connect, address)
    }

    /// Whether a guest may listen at an address.
    pub fn may_listen(&self, address: SocketAddr) -> bool {
        allows(&self.listen, address)
    }
}

fn allows(rules: &[Rule], address: SocketAddr) -> bool {
    rules.iter().any(|rule| rule.allows_address(address.ip().to_canonical(), address.port()))
}

/// Whether an address belongs to the internet at large, as far as its number tells.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && b & 0xC0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xFE == 18);
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // Global unicast, less what stands for an IPv4 address or for documentation.
    a & 0xE000 == 0x2000 && a != 0x2002 && !(a == 0x2001 && (b == 0 || b == 0x0DB8))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPattern::Any => f.write_str("*")?,
            HostPattern::Loopback => f.write_str("loopback")?,
            HostPattern::Name(name) => f.write_str(name)?,
            HostPattern::Below(name) => write!(f, "*.{name}")?,
            HostPattern::Network(address @ IpAddr::V4(_), bits) => write!(f, "{address}/{bits}")?,
            HostPattern::Network(address, bits) => write!(f, "[{address}/{bits}]")?,
        }
        match (self.ports.start(), self.ports.end()) {
            (0, &u16::MAX) => f.write_str(":*"),
            (low, high) if low == high => write!(f, ":{low}"),
            (low, high) => write!(f, ":{low}-{high}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(rules: &[&str]) -> NetworkPolicy {
        let mut policy = NetworkPolicy::new();
        for rule in rules {
            policy.allow_connect(rule).unwrap();
        }
        policy
    }

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_empty_policy_allows_nothing() {
        let policy = NetworkPolicy::new();
        assert!(!policy.may_look_up("localhost", 80));
        assert!(!policy.may_connect(at("127.0.0.1:80")));
        assert!(!policy.may_listen(at("127.0.0.1:0")));
    }

    #[test]
    fn a_name_rule_admits_that_name_and_port_only() {
        let policy = policy(&["db.example.com:5432"]);
        assert!(policy.may_look_up("db.example.com", 5432));
        assert!(policy.may_look_up("DB.Example.COM.", 5432));
        assert!(!policy.may_look_up("db.example.com", 5433));
        assert!(!policy.may_look_up("evil-db.example.com", 5432));
        assert!(!policy.may_look_up("db.example.com.evil.org", 5432));
    }

    #[test]
    fn a_name_that_resolves_to_a_private_address_needs_a_rule_for_the_address() {
        let by_name = policy(&["db.example.com:5432"]);
        assert!(by_name.may_connect_resolved(at("93.184.216.34:5432")));
        for private in [
            "127.0.0.1:5432",
            "10.1.2.3:5432",
            "192.168.0.1:5432",
            "169.254.169.254:5432",
            "100.64.0.1:5432",
            "0.0.0.0:5432",
            "[::1]:5432",
            "[fd00::1]:5432",
            "[fe80::1]:5432",
            "[::ffff:127.0.0.1]:5432",
            "[64:ff9b::7f00:1]:5432",
            "[2002:7f00:1::]:5432",
        ] {
            assert!(!by_name.may_connect_resolved(at(private)), "{private}");
        }
        let by_both = policy(&["db.example.com:5432", "10.0.0.0/8:5432"]);
        assert!(by_both.may_connect_resolved(at("10.1.2.3:5432")));
        assert!(!by_both.may_connect_resolved(at("10.1.2.3:80")));
        assert!(!by_both.may_connect_resolved(at("11.1.2.3:80")) || is_public("11.1.2.3".parse().unwrap()));
    }

    #[test]
    fn localhost_by_name_means_this_machine() {
        let policy = policy(&["localhost:80"]);
        assert!(policy.may_look_up("localhost", 80));
        assert!(policy.may_connect_resolved(at("127.0.0.1:80")));
        assert!(policy.may_connect_resolved(at("[::1]:80")));
        assert!(!policy.may_connect_resolved(at("10.0.0.1:80")));
    }

    #[test]
    fn a_mapped_address_is_the_address_it_maps() {
        let policy = policy(&["127.0.0.1:80"]);
        assert!(policy.may_connect(at("[::ffff:127.0.0.1]:80")));
        let any_v4_by_mapping = self::policy(&["[::ffff:0:0/96]:80"]);
        assert!(any_v4_by_mapping.may_connect(at("8.8.8.8:80")));
    }

    #[test]
    fn a_mapped_network_with_a_short_prefix_neither_panics_nor_admits_ipv4() {
        for bits in 0..96 {
            let policy = policy(&[&format!("[::ffff:10.0.0.0/{bits}]:*")]);
            for address in ["10.0.0.1:80", "8.8.8.8:80", "127.0.0.1:80", "[::ffff:10.0.0.1]:80"] {
                assert!(!policy.may_connect(at(address)), "/{bits} admits {address}");
            }
            assert_eq!(policy.may_connect(at("[::1]:80")), bits <= 80, "/{bits}");
        }
        let policy = policy(&["[::ffff:10.0.0.0/104]:*"]);
        assert!(policy.may_connect(at("10.9.8.7:80")) && !policy.may_connect(at("11.9.8.7:80")));
    }

    /// Bit by bit, as one would explain it: an IPv4 rule is about IPv4 addresses, a rule for mapped
    /// addresses about those that they map, any other about IPv6 addresses that are not mapped.
    fn is_within_naively(address: IpAddr, network: IpAddr, bits: u8) -> bool {
        let bits_of = |address: IpAddr| -> Vec<bool> {
            let octets = match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1)).collect()
        };
        let is_mapped =
            |bits: &[bool]| bits[..80].iter().all(|bit| !bit) && bits[80..96].iter().all(|bit| *bit);
        let compared = if network.is_ipv4() { usize::from(bits) + 96 } else { usize::from(bits) };
        let (address, network) = (bits_of(address), bits_of(network));
        let same_kind = is_mapped(&address) == (compared >= 96 && is_mapped(&network));
        same_kind && address[..compared] == network[..compared]
    }

    #[test]
    fn networks_match_as_a_naive_comparison_bit_by_bit_does() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut admitted = 0;
        for _ in 0..20_000 {
            let wide = u128::from(random()) << 64 | u128::from(random());
            let network: IpAddr = match random() % 4 {
                0 => Ipv4Addr::from(wide as u32).into(),
                1 => Ipv4Addr::from(wide as u32).to_ipv6_mapped().into(),
                2 => Ipv6Addr::from(wide >> (random() % 128)).into(),
                _ => Ipv6Addr::from(wide).into(),
            };
            let most = if network.is_ipv4() { 32 } else { 128 };
            let bits = (random() % (most + 1)) as u8;
            // An address that shares the beginning with the network, as often as not.
            let flipped = 1_u128 << (random() % 128);
            let address: IpAddr = match network {
                IpAddr::V4(network) => Ipv4Addr::from(u32::from(network) ^ flipped as u32).into(),
                IpAddr::V6(network) => Ipv6Addr::from(u128::from(network) ^ flipped).into(),
            };
            let host =
                if network.is_ipv4() { format!("{network}/{bits}") } else { format!("[{network}/{bits}]") };
            let rule: Rule = format!("{host}:*").parse().unwrap();
            for address in [address, network, Ipv4Addr::from(wide as u32 ^ flipped as u32).into()] {
                let admits = rule.allows_address(address.to_canonical(), 80);
                assert_eq!(admits, is_within_naively(address, network, bits), "{rule} and {address}");
                admitted += u32::from(admits);
            }
        }
        assert!((10_000..50_000).contains(&admitted), "both answers occur");
    }

    #[test]
    fn networks_suffixes_and_port_ranges_match() {
        let policy = policy(&["10.0.0.0/8:8000-8999", "[fd00::/8]:*", "*.example.com:443"]);
        assert!(policy.may_connect(at("10.255.0.1:8500")));
        assert!(!policy.may_connect(at("10.255.0.1:9000")));
        assert!(policy.may_connect(at("[fdab::1]:1")));
        assert!(policy.may_look_up("a.b.example.com", 443));
        assert!(!policy.may_look_up("example.com", 443));
        assert!(!policy.may_look_up(".example.com", 443));
    }

    #[test]
    fn rules_are_shown_as_they_can_be_written() {
        for text in ["*:*", "loopback:80", "a.b:1-2", "*.x.org:443", "10.0.0.0/8:*", "[fd00::/8]:9"] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for text in [
            "",
            "host",
            "host:",
            "host:70000",
            "host:9-1",
            ":80",
            "::1:80",
            "10.0.0.0/33:1",
            "a b:1",
            "x/8:1",
            "*.:1",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
    }
}
