//! How a node shows a server who it is, and the server the node: nkeys, credentials, TLS.

use crate::bus::{NatsServer, Node, Plan};
use crate::support::eventually;
use data_encoding::BASE64URL_NOPAD;
use nkeys::KeyPair;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const SHARED: &str = "share = true\nlimits = { concurrency = 16 }";

/// A file that only its owner may read.
fn secret(folder: &Path, name: &str, text: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, text).expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    file.display().to_string()
}

/// Two nodes with these keys of `[uplink]`, which must find each other.
fn meet(plan: impl Fn(&str) -> Plan) -> (Node, Node) {
    let b = plan("b").serves(SHARED).start();
    let a = plan("a").uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    assert_eq!(a.connect().query("Test.Where", json!({}))["node"], json!("b"));
    (a, b)
}

/// A node that never gets in, and says why.
fn stays_out(plan: &Plan, because: &str) {
    let node = plan.start();
    eventually("it is told why", || node.log().to_lowercase().contains(because));
    assert_eq!(node.bus()["connected"], json!(false), "{}", node.log());
}

#[test]
fn n6_4_a_node_is_known_by_its_nkey() {
    let (known, stranger) = (KeyPair::new_user(), KeyPair::new_user());
    let nats =
        NatsServer::with_config(&format!("authorization {{ users = [{{ nkey: {} }}] }}", known.public_key()));
    let folder = TempDir::new().expect("a folder");
    let plan = |name: &str, pair: &KeyPair| {
        let seed = secret(folder.path(), &format!("{name}.nk"), &pair.seed().expect("a seed"));
        Plan::new(name, &nats).uplink(&format!("nkey_file = {seed:?}"))
    };
    let _nodes = meet(|name| plan(name, &known));
    stays_out(&plan("c", &stranger), "authorization");
}

/// A token as NATS reads them, signed by this key.
fn token(name: &str, subject: &KeyPair, by: &KeyPair, nats: Value) -> String {
    let claims = json!({
        "jti": name, "iat": 1_700_000_000, "iss": by.public_key(), "name": name,
        "sub": subject.public_key(), "nats": nats,
    });
    let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", encode(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), encode(&claims));
    let signature = by.sign(signed.as_bytes()).expect("a signature");
    format!("{signed}.{}", BASE64URL_NOPAD.encode(&signature))
}

/// A file of credentials for a user of this account.
fn credentials(account: &KeyPair) -> String {
    let user = KeyPair::new_user();
    let unlimited =
        json!({ "type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1, "pub": {}, "sub": {} });
    let token = token("user", &user, account, unlimited);
    format!(
        "-----BEGIN NATS USER JWT-----\n{token}\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
        user.seed().expect("a seed")
    )
}

#[test]
fn n6_5_a_node_is_known_by_its_credentials() {
    let (operator, account, other) =
        (KeyPair::new_operator(), KeyPair::new_account(), KeyPair::new_account());
    let of_operator = token("operator", &operator, &operator, json!({ "type": "operator", "version": 2 }));
    let limits = json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
    });
    let of_account =
        token("account", &account, &operator, json!({ "type": "account", "version": 2, "limits": limits }));
    let nats = NatsServer::with_config(&format!(
        "operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {}: {of_account} }}",
        account.public_key()
    ));
    let folder = TempDir::new().expect("a folder");
    let plan = |name: &str, account: &KeyPair| {
        let file = secret(folder.path(), &format!("{name}.creds"), &credentials(account));
        Plan::new(name, &nats).uplink(&format!("creds_file = {file:?}"))
    };
    let _nodes = meet(|name| plan(name, &account));
    stays_out(&plan("c", &other), "authorization");
}

/// A certificate or key of the tests of `crates/http`.
fn certificate(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../http/tests/data").join(name);
    path.canonicalize().expect("the file").display().to_string()
}

#[test]
fn n6_6_both_sides_of_a_connection_show_a_certificate() {
    let nats = NatsServer::with_config(&format!(
        "tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}",
        certificate("server.pem"),
        certificate("server.key"),
        certificate("authority.pem")
    ));
    let folder = TempDir::new().expect("a folder");
    let key = std::fs::read_to_string(certificate("client.key")).expect("a key");
    let key = secret(folder.path(), "client.key", &key);
    let plan = |name: &str, keys: &str| {
        let urls = vec![format!("tls://localhost:{}", nats.port)];
        Plan { urls, ..Plan::new(name, &nats) }.uplink(keys)
    };
    let shown = format!("certificate = {:?}\nkey = {key:?}", certificate("client.pem"));
    let trusted = format!("ca = {:?}", certificate("authority.pem"));
    let _nodes = meet(|name| plan(name, &format!("{shown}\n{trusted}")));
    // A server that nobody vouches for, and a node that shows nothing.
    stays_out(&plan("c", &shown), "certificate");
    stays_out(&plan("d", &trusted), "uplink");
}
