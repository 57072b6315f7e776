//! The service behind nats-server: it answers every request, as a capability would.

use futures_util::StreamExt as _;

/// What requests are sent to.
pub(crate) const SUBJECT: &str = "memory.set";

pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let url = words.first().ok_or("responder needs the URL of a nats-server")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    runtime.block_on(serve(url)).map_err(|error| error.to_string())
}

async fn serve(url: &str) -> Result<(), async_nats::Error> {
    let client = async_nats::connect(url).await?;
    let mut requests = client.subscribe(SUBJECT).await?;
    client.flush().await?;
    println!("ready");
    while let Some(request) = requests.next().await {
        if let Some(reply) = request.reply {
            client.publish(reply, "{\"created\":false}".into()).await?;
        }
    }
    Ok(())
}
