//! Answers each line of standard input with the same line in capitals; ends with the input.

use mainspring_guest::{block_on, stdin, stdout};

fn main() -> std::io::Result<()> {
    block_on(async {
        let (mut lines, output) = (stdin().lines(), stdout());
        while let Some(line) = lines.next_line().await? {
            output.write_all(format!("{}\n", line.to_uppercase()).as_bytes()).await?;
        }
        Ok(())
    })
}
