//! On which of several nodes a key belongs: rendezvous hashing. Equal keys go to the same node
//! while the same nodes are there; when one comes or goes, only the keys move that it gets or had.

use serde_json::Value;

fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 30;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^= hash >> 27;
    hash = hash.wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

fn hash(text: &str) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    mix(text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)))
}

/// The node, of these, where a key belongs. Every node that knows the same nodes says the same.
pub fn place<'a>(key: &str, nodes: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let key = hash(key);
    nodes.into_iter().max_by_key(|node| (mix(key ^ hash(node)), *node))
}

/// What decides on the place of a message with these data: what stands at a pointer such as
/// `/data/key`. Equal values are equal texts. Nothing if nothing stands there.
#[must_use]
pub fn key_at(pointer: &str, data: &str) -> Option<String> {
    let data: Value = serde_json::from_str(data).ok()?;
    let value = data.pointer(pointer.strip_prefix("/data")?)?;
    (!value.is_null()).then(|| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_evenly_and_only_those_of_a_lost_node_move() {
        let nodes = ["a", "b", "c", "d"];
        let mut counts = [0_usize; 4];
        let mut moved = 0;
        for number in 0..40_000 {
            let key = format!("\"{number}\"");
            let all = place(&key, nodes).unwrap();
            counts[nodes.iter().position(|node| *node == all).unwrap()] += 1;
            let rest = place(&key, ["d", "a", "b"]).unwrap();
            assert!(all == "c" || rest == all, "a key moved though its node is there");
            moved += usize::from(rest != all);
        }
        for count in counts {
            assert!((9_000..11_000).contains(&count), "{counts:?}");
        }
        assert_eq!(moved, counts[2]);
        assert_eq!(place("x", []), None);
    }

    #[test]
    fn a_key_is_what_stands_at_its_pointer() {
        assert_eq!(key_at("/data/key", r#"{"key":"k"}"#).as_deref(), Some("\"k\""));
        assert_eq!(key_at("/data/a/1", r#"{"a":[1,{"b": 2,"a":1}]}"#).as_deref(), Some(r#"{"a":1,"b":2}"#));
        assert_eq!(key_at("/data", "7").as_deref(), Some("7"));
        assert_eq!(key_at("/data/key", r#"{"other":1}"#), None);
        assert_eq!(key_at("/data/key", r#"{"key":null}"#), None);
    }
}
