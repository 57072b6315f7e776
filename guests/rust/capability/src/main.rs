//! A capability that answers every command and query with its own data.

use mainspring_guest::capability::serve;

fn main() -> std::io::Result<()> {
    serve(|message, outbox| {
        if message.kind().is_request() {
            outbox.reply(message, message.data_json());
        }
    })
}
