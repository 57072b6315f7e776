//! What the benchmarks measure. Each says `ready` when it is logged in and `done` when the work is,
//! so that only the work is timed.

use crate::scenarios::copy_in;
use crate::session::{Server, Session};
use crate::{Failure, Platform};
use futures_util::TryStreamExt;
use std::pin::pin;

/// Fills the table that [`read_rows`] reads.
pub(crate) async fn prepare<P: Platform>(server: &Server<P>, rows: u64) -> Result<(), Failure> {
    let session = server.log_in().await?;
    let statements = format!(
        "drop table if exists bench_rows;
         create table bench_rows (id int8, name text, amount float8);
         insert into bench_rows select number, 'name of row ' || number, number + 0.5
             from generate_series(1, {rows}) number;"
    );
    session.client.batch_execute(&statements).await?;
    session.client.batch_execute("vacuum analyze bench_rows").await?;
    server.platform.say("prepared");
    Ok(())
}

/// Reads rows of the table that was prepared.
pub(crate) async fn read_rows<P: Platform>(server: &Server<P>, rows: u64) -> Result<(), Failure> {
    let session = server.log_in().await?;
    let statement = session.client.prepare("select id, name, amount from bench_rows limit $1").await?;
    server.platform.say("ready");
    let mut stream = pin!(session.client.query_raw(&statement, [rows as i64]).await?);
    let (mut count, mut sum, mut letters, mut amount) = (0u64, 0i64, 0usize, 0f64);
    while let Some(row) = stream.try_next().await? {
        count += 1;
        sum = sum.wrapping_add(row.get::<_, i64>(0));
        letters += row.get::<_, &str>(1).len();
        amount += row.get::<_, f64>(2);
    }
    server.platform.say(&format!("done {count} {sum} {letters} {amount}"));
    Ok(())
}

/// Sends rows by COPY into a temporary table.
pub(crate) async fn copy_rows_in<P: Platform>(server: &Server<P>, rows: u64) -> Result<(), Failure> {
    let session = server.log_in().await?;
    session.client.batch_execute("create temporary table loaded (id int8, name text, amount float8)").await?;
    server.platform.say("ready");
    let line = |number: u64| format!("{number}\tname of row {number}\t{number}.5\n");
    let taken = copy_in(&session.client, "copy loaded from stdin", rows, line).await?;
    server.platform.say(&format!("done {taken}"));
    Ok(())
}

/// Asks small questions, one after the other.
pub(crate) async fn small_queries<P: Platform>(server: &Server<P>, count: u64) -> Result<(), Failure> {
    let session = server.log_in().await?;
    ask(server, &session, count).await
}

/// The same while another connection of this program has nothing to say.
pub(crate) async fn small_queries_beside_an_idle_connection<P: Platform>(
    server: &Server<P>,
    count: u64,
) -> Result<(), Failure> {
    let _idle = server.log_in().await?;
    let session = server.log_in().await?;
    ask(server, &session, count).await
}

async fn ask<P: Platform>(server: &Server<P>, session: &Session, count: u64) -> Result<(), Failure> {
    let statement = session.client.prepare("select $1::int8 + 1").await?;
    server.platform.say("ready");
    let mut sum = 0i64;
    for number in 0..count as i64 {
        sum = sum.wrapping_add(session.client.query_one(&statement, &[&number]).await?.get::<_, i64>(0));
    }
    server.platform.say(&format!("done {sum}"));
    Ok(())
}
