//! What the tests ask for. Each scenario tells its outcome in one line; what should not be is an
//! error.

use crate::session::{Server, Session};
use crate::{Failure, Platform};
use bytes::Bytes;
use futures_util::future::{Either, join, select};
use futures_util::{SinkExt, TryStreamExt};
use std::pin::pin;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

/// Bytes of COPY data that are handed over at a time.
const COPY_CHUNK_BYTES: usize = 16 * 1024;

macro_rules! expect {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+).into());
        }
    };
}

/// Parameters of several types, prepared statements, transactions, and an error that leaves the
/// connection usable.
pub(crate) async fn basics<P: Platform>(server: &Server<P>) -> Result<(), Failure> {
    let mut session = server.log_in().await?;
    let client = &mut session.client;
    let row = client
        .query_one(
            "select $1::int8 + 1, upper($2::text), $3::bytea || '\\xff'::bytea, $4::float8 / 2, $5::text is null",
            &[&41i64, &"hello, \u{20ac}", &&b"\x00\x01"[..], &3.0f64, &None::<&str>],
        )
        .await?;
    expect!(row.get::<_, i64>(0) == 42 && row.get::<_, &str>(1) == "HELLO, \u{20ac}", "{row:?}");
    expect!(row.get::<_, &[u8]>(2) == b"\x00\x01\xff" && row.get::<_, f64>(3) == 1.5, "{row:?}");
    expect!(row.get::<_, bool>(4), "{row:?}");

    let double = client.prepare("select $1::int4 * 2").await?;
    for number in [1i32, 2, -5] {
        expect!(client.query_one(&double, &[&number]).await?.get::<_, i32>(0) == number * 2, "{number}");
    }

    client.batch_execute("create temporary table kept (number int4)").await?;
    let transaction = client.transaction().await?;
    transaction.execute("insert into kept values (1)", &[]).await?;
    transaction.rollback().await?;
    let transaction = client.transaction().await?;
    expect!(transaction.execute("insert into kept values (2), (3)", &[]).await? == 2, "two rows");
    transaction.commit().await?;
    expect!(client.query_one("select sum(number) from kept", &[]).await?.get::<_, i64>(0) == 5, "the sum");

    let refused = client.query("select 1 / 0", &[]).await;
    expect!(code_of(&refused) == Some(SqlState::DIVISION_BY_ZERO), "{refused:?}");
    let wide = client.query_one("select repeat('x', 1000000)", &[]).await?;
    expect!(wide.get::<_, &str>(0).len() == 1_000_000, "a wide row");
    server.platform.say("basics ok");
    Ok(())
}

fn code_of<T>(outcome: &Result<T, tokio_postgres::Error>) -> Option<SqlState> {
    outcome.as_ref().err().and_then(|error| error.code().cloned())
}

/// COPY in both directions.
pub(crate) async fn copy<P: Platform>(server: &Server<P>, rows: u64) -> Result<(), Failure> {
    let session = server.log_in().await?;
    let client = &session.client;
    client.batch_execute("create temporary table copied (number int8, name text)").await?;
    let line = |number: u64| format!("{number}\tname of {number}\n");
    let written = copy_in(client, "copy copied from stdin", rows, line).await?;
    expect!(written == rows, "{written} rows were taken");

    let mut stream = pin!(client.copy_out("copy (select * from copied order by number) to stdout").await?);
    let (mut text, mut seen) = (Vec::new(), 0);
    while let Some(piece) = stream.try_next().await? {
        text.extend_from_slice(&piece);
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let row: Vec<u8> = text.drain(..=end).collect();
            expect!(row == line(seen).as_bytes(), "row {seen} came back as {row:?}");
            seen += 1;
        }
    }
    expect!(text.is_empty() && seen == rows, "{seen} rows came back");
    server.platform.say(&format!("copied {rows}"));
    Ok(())
}

/// Sends rows by COPY; how many the server took.
pub(crate) async fn copy_in(
    client: &Client,
    statement: &str,
    rows: u64,
    line: impl Fn(u64) -> String,
) -> Result<u64, Failure> {
    let mut sink = pin!(client.copy_in(statement).await?);
    let mut chunk = Vec::with_capacity(COPY_CHUNK_BYTES + 256);
    for number in 0..rows {
        chunk.extend_from_slice(line(number).as_bytes());
        if chunk.len() >= COPY_CHUNK_BYTES {
            sink.send(Bytes::from(std::mem::take(&mut chunk))).await?;
        }
    }
    sink.send(Bytes::from(chunk)).await?;
    Ok(sink.as_mut().finish().await?)
}

/// One connection listens while it runs queries; another notifies it.
pub(crate) async fn notify<P: Platform>(server: &Server<P>, count: u64) -> Result<(), Failure> {
    let (listening, notifying) = (server.log_in().await?, server.log_in().await?);
    // Other tests may use the same server: the channel is this connection's own.
    let id: i32 = listening.client.query_one("select pg_backend_pid()", &[]).await?.get(0);
    let channel = format!("news_{id}");
    listening.client.batch_execute(&format!("listen {channel}")).await?;
    let notify = async {
        for number in 0..count {
            let text = number.to_string();
            notifying.client.execute("select pg_notify($1, $2)", &[&channel, &text]).await?;
        }
        Ok::<_, Failure>(())
    };
    let query = async {
        for number in 0..count as i64 {
            let row = listening.client.query_one("select $1::int8", &[&number]).await?;
            expect!(row.get::<_, i64>(0) == number, "the wrong answer to {number}");
        }
        Ok::<_, Failure>(())
    };
    let (notified, queried) = join(notify, query).await;
    notified.and(queried)?;
    // A notification arrives with the next answer at the latest.
    listening.client.query_one("select 1", &[]).await?;
    let heard: Vec<String> = listening.arrivals.borrow_mut().notifications.drain(..).collect();
    let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    expect!(heard == expected, "heard {heard:?}");
    server.platform.say(&format!("heard {count} notifications"));
    Ok(())
}

/// Two connections: a slow statement on one does not hold up the other.
pub(crate) async fn two_at_once<P: Platform>(server: &Server<P>) -> Result<(), Failure> {
    let (slow, quick) = (server.log_in().await?, server.log_in().await?);
    let sleeping = pin!(slow.client.query("select pg_sleep(60)", &[]));
    let asking = pin!(async {
        for number in 0..200i32 {
            let row = quick.client.query_one("select $1::int4", &[&number]).await?;
            expect!(row.get::<_, i32>(0) == number, "the wrong answer to {number}");
        }
        Ok::<_, Failure>(())
    });
    match select(asking, sleeping).await {
        Either::Left((asked, _)) => asked?,
        Either::Right((slept, _)) => return Err(format!("a minute passed: {slept:?}").into()),
    }
    server.platform.say("both at once");
    Ok(())
}

/// A statement is cancelled over a second connection; the first stays usable.
pub(crate) async fn cancel<P: Platform>(server: &Server<P>) -> Result<(), Failure> {
    let session = server.log_in().await?;
    let process: i32 = session.client.query_one("select pg_backend_pid()", &[]).await?.get(0);
    let token = session.client.cancel_token();
    let cancelling = async {
        until_it_sleeps(&server.log_in().await?, process).await?;
        token.cancel_query_raw(server.stream().await?, NoTls).await?;
        Ok::<_, Failure>(())
    };
    let (slept, cancelled) = join(session.client.query("select pg_sleep(60)", &[]), cancelling).await;
    cancelled?;
    expect!(code_of(&slept) == Some(SqlState::QUERY_CANCELED), "{slept:?}");
    expect!(session.client.query_one("select 7", &[]).await?.get::<_, i32>(0) == 7, "usable afterwards");
    server.platform.say("cancelled");
    Ok(())
}

/// A statement has to run before it can be cancelled: asks the server until it does.
async fn until_it_sleeps(watching: &Session, process: i32) -> Result<(), Failure> {
    let question = "select count(*) from pg_stat_activity where pid = $1 and wait_event = 'PgSleep'";
    while watching.client.query_one(question, &[&process]).await?.get::<_, i64>(0) == 0 {}
    Ok(())
}

/// A statement that takes seconds.
pub(crate) async fn slow<P: Platform>(server: &Server<P>, seconds: u64) -> Result<(), Failure> {
    let session = server.log_in().await?;
    server.platform.say("asking");
    session.client.query_one(&format!("select pg_sleep({seconds})"), &[]).await?;
    server.platform.say("answered");
    Ok(())
}

/// Waits within a transaction until whoever drives this ends it.
pub(crate) async fn idle_in_a_transaction<P: Platform>(server: &Server<P>) -> Result<(), Failure> {
    let mut session = server.log_in().await?;
    let transaction = session.client.transaction().await?;
    transaction.query_one("select 1", &[]).await?;
    server.platform.say("idle");
    std::future::pending::<()>().await;
    transaction.commit().await?;
    Ok(())
}

/// The server goes away during a statement: that statement and every later one fail, and say so.
pub(crate) async fn restart<P: Platform>(server: &Server<P>) -> Result<(), Failure> {
    let session = server.log_in().await?;
    let idle = server.log_in().await?;
    server.platform.say("connected");
    let cut_off = session.client.query("select pg_sleep(60)", &[]).await;
    expect!(is_cut_off(&cut_off), "{cut_off:?}");
    for client in [&session.client, &idle.client] {
        let after = client.query("select 1", &[]).await;
        expect!(is_cut_off(&after), "{after:?}");
    }
    server.platform.say("cut off");
    // The new server takes a little while to start.
    let again = loop {
        if let Ok(session) = server.log_in().await {
            break session;
        }
    };
    expect!(again.client.query_one("select 1", &[]).await?.get::<_, i32>(0) == 1, "connected again");
    let ended = session.arrivals.borrow().ended.clone().unwrap_or_default();
    server.platform.say(&format!("connected again after: {ended}"));
    Ok(())
}

/// Whether a statement failed because the server went away.
fn is_cut_off<T>(outcome: &Result<T, tokio_postgres::Error>) -> bool {
    let said_so = code_of(outcome) == Some(SqlState::ADMIN_SHUTDOWN);
    said_so || outcome.as_ref().err().is_some_and(tokio_postgres::Error::is_closed)
}
