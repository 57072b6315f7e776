// What an open console asks of a daemon that has nothing else to do: one round a second; and when
// it is closed, nothing. How much CPU it costs under load is measured with an optimised daemon:
// `cargo xtask bench console`.
import { openPage } from "../browser.mjs";
import { Daemon } from "../daemon.mjs";
import { assert, eventually, live, open } from "./support.mjs";

const WATCHED_MS = 6000;

export const tests = [
  [
    "an idle console asks once a second in every panel, and a closed one leaves a daemon that sleeps",
    async (browser) => {
      const daemon = await Daemon.start();
      const { page, context, faults } = await openPage(browser);
      try {
        await page.goto(await daemon.console());
        await live(page);
        let asked = [];
        page.on("request", (request) => asked.push(new URL(request.url()).pathname));
        for (const [panel, item] of [["overview"], ["capabilities", "orders"], ["letters"]]) {
          await open(page, panel, item);
          await page.waitForTimeout(1500);
          asked = [];
          await page.waitForTimeout(WATCHED_MS);
          const rounds = asked.filter((path) => path === "/v1/messages").length;
          assert.ok(rounds >= 2, `${panel}: it stopped asking`);
          assert.ok(asked.length <= WATCHED_MS / 1000 + 1, `${panel}: ${asked.length} requests in ${WATCHED_MS} ms: ${asked.join(" ")}`);
        }
        await context.close();
        await eventually("the daemon sleeps", async () => {
          const before = daemon.sleeps();
          await new Promise((resolve) => setTimeout(resolve, 3000));
          return daemon.sleeps() === before;
        }, 60_000);
        assert.deepEqual(faults, []);
      } finally {
        await context.close();
        await daemon.end();
      }
    },
  ],
];
