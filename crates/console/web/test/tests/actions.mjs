// Every panel with live data of a real daemon, and every action with its effect there.
import { execFile } from "node:child_process";
import process from "node:process";
import { promisify } from "node:util";
import { GUEST_TOKEN, program } from "../daemon.mjs";
import { assert, atDaemon, cell, eventually, open } from "./support.mjs";

const shell = promisify(execFile);

async function pauseAndChoose(page, text) {
  await page.locator(".virtual-row", { hasText: text }).first().waitFor();
  await page.keyboard.press("p");
  await page.locator(".virtual-row", { hasText: text }).first().click();
}

export const tests = [
  [
    "the strip, the charts and the flow show what passes",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        const stop = daemon.traffic();
        await eventually("messages are counted", async () => Number.parseFloat(await cell(page, "Messages")) > 5);
        await eventually("requests are timed", async () => /\d/.test(await cell(page, "p99")));
        assert.match(await cell(page, "Memory"), /MiB/);
        assert.match(await cell(page, "Journal"), /iB/);
        for (const name of ["orders", "stock", "bank", "mailer"]) await page.locator(".node", { hasText: name }).waitFor();
        // A client to the orders, orders to the stock, and an event to the mailer that subscribes.
        for (const edge of [/user:\d+ → orders: \d/, /orders → stock: \d/, /orders → mailer: \d/])
          await eventually(`there is an edge ${edge}`, async () => (await page.locator(".edge title").allTextContents()).some((text) => edge.test(text)));
        assert.ok((await page.locator("canvas").count()) >= 4);
        await page.locator("table", { hasText: "Handled" }).getByText("up").first().waitFor();
        await stop();
      }),
  ],
  [
    "the stream shows a message at once, filters at the daemon, and holds still when it is told to",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await open(page, "stream");
        await page.getByText("Quiet so far").waitFor();
        await page.waitForTimeout(300);
        await daemon.pipe([["command", "Order.Place", { customer: "Ada", quantity: 1 }]]);
        const sent = Date.now();
        await page.locator(".virtual-row", { hasText: "Order.Place" }).first().waitFor();
        assert.ok(Date.now() - sent < 2000, "it took long to show");
        await page.locator(".virtual-row", { hasText: "Order.Placed" }).first().waitFor();
        await page.getByLabel("Filter by type or words").fill("Bank.*");
        await page.getByText("Nothing fits").waitFor();
        await page.waitForTimeout(600);
        await daemon.pipe([["query", "Order.Count", 1], ["command", "Bank.Charge", { amount: 1 }]]);
        await page.locator(".virtual-row", { hasText: "Bank.Charge" }).waitFor();
        assert.equal(await page.locator(".virtual-row", { hasText: "Order" }).count(), 0);
        await page.getByLabel("Filter by type or words").fill("");
        await page.getByRole("button", { name: "failed" }).click();
        await page.waitForTimeout(600);
        await daemon.pipe([["command", "Bank.Charge", { amount: 500 }], ["command", "Bank.Charge", { amount: 2 }]]);
        await page.locator(".virtual-row", { hasText: "402" }).waitFor();
        assert.equal(await page.locator(".virtual-row").count(), 1);
        await page.getByRole("button", { name: "failed" }).click();
        await page.getByRole("button", { name: "Pause" }).click();
        const before = await page.locator(".virtual-row").count();
        await daemon.pipe([["query", "Order.Count", 1]]);
        await page.waitForTimeout(1000);
        assert.equal(await page.locator(".virtual-row").count(), before, "it moved though it is paused");
        await page.getByRole("button", { name: "Go on" }).click();
        await eventually("it goes on", async () => (await page.locator(".virtual-row").count()) > before);
      }),
  ],
  [
    "a trace is a tree with data, which runs again and is copied as commands that work",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await open(page, "stream");
        await daemon.pipe([["command", "Order.Place", { customer: "Grace O'Neil $(id) \u001b[31m\u202e", quantity: 3 }]]);
        await pauseAndChoose(page, "Order.Place");
        const rows = page.locator(".tree tbody tr");
        await eventually("the whole tree is there", async () => (await rows.count()) === 3);
        assert.match(await rows.nth(1).innerText(), /Stock\.Reserve/);
        assert.ok((await page.locator(".tree .fall-work").count()) >= 2);
        assert.ok((await page.locator(".tree .fall-wait").count()) >= 2, "waiting is told apart");
        assert.match(await rows.nth(1).innerText(), /waited .*, worked .*, reply/, "for whoever does not see it, too");
        await page.locator(".tree").getByRole("button", { name: "Order.Place", exact: false }).first().click();
        await page.locator(".sides", { hasText: "Grace O'Neil" }).waitFor();
        await page.locator(".sides", { hasText: "Reply" }).waitFor();
        const orders = async () => (await daemon.query("Order.Count")).orders;
        assert.equal(await orders(), 1);
        for (const name of ["Command", "curl"]) {
          await page.locator(".details").getByRole("button", { name, exact: true }).click();
          const copied = await page.evaluate(() => navigator.clipboard.readText());
          assert.ok(copied.includes("Order.Place"), copied);
          if (name === "curl") assert.ok(copied.includes(`${daemon.url}/v1/commands/Order.Place`), copied);
          const { stdout } = await shell("sh", ["-c", copied.replace(/^mainspring/, `"${program}"`)], { env: { ...process.env, MAINSPRING_SOCKET: daemon.socket, TOKEN: GUEST_TOKEN } });
          assert.equal(JSON.parse(stdout).customer, "Grace O'Neil $(id) \u001b[31m\u202e", `${name} sends what was sent`);
          assert.ok(!/[\u0000-\u001f\u202e]/.test(copied), "nothing in it moves what a terminal shows");
        }
        assert.equal(await orders(), 3, "the copied command was run, and the curl line");
        await page.getByRole("button", { name: "Run again" }).click();
        await page.getByText("Sent Order.Place again.").waitFor();
        assert.equal(await orders(), 4);
        await page.waitForSelector(".panel-traces .trace");
        await eventually("all of them are listed", async () => (await page.locator(".panel-traces .virtual-row", { hasText: "Order.Place" }).count()) >= 4);
        // The history of a daemon as it is shipped keeps no data; the page has seen it.
        await page.locator(".panel-traces .sides", { hasText: "Grace O'Neil" }).waitFor();
        // An event runs again, too.
        await page.locator(".tree").getByRole("button", { name: "Order.Placed" }).click();
        const placed = async () => (await daemon.query("Sys.Trace", { latest: 50, type: "Order.Placed" })).nodes.length;
        const before = await placed();
        await page.getByRole("button", { name: "Run again" }).click();
        await eventually("the event was sent", async () => (await placed()) > before);
      }),
  ],
  [
    "a capability that fails shows why, and is started again from here",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await open(page, "capabilities", "orders");
        await page.getByText("orders listens").waitFor();
        // The newest lines are in sight, until somebody looks at older ones.
        await daemon.pipe(Array.from({ length: 60 }, (_, at) => ["command", "Bank.Charge", { amount: at }]));
        await open(page, "capabilities", "bank");
        const log = page.locator(".log", { hasText: "charged 59" });
        await log.waitFor();
        const below = async () => await log.evaluate((box) => box.scrollHeight - box.scrollTop - box.clientHeight);
        await eventually("its end is in sight", async () => (await below()) < 40);
        await log.evaluate((box) => (box.scrollTop = 0));
        await page.waitForTimeout(300);
        await daemon.pipe([["command", "Bank.Charge", { amount: 77 }]]);
        await page.locator(".log", { hasText: "charged 77" }).waitFor();
        assert.ok((await below()) > 100, "it moved under who reads");
        await open(page, "capabilities", "orders");
        await page.getByRole("button", { name: "Restart" }).click();
        await page.locator("dialog").getByRole("button", { name: "Restart" }).click();
        await eventually("another incarnation runs", async () => (await daemon.query("Sys.Actors")).actors.find((actor) => actor.capabilityId === "orders").incarnation > 1);
        const bank = async () => (await daemon.query("Sys.Actors")).actors.find((actor) => actor.capabilityId === "bank");
        for (let at = 0; at < 6 && (await bank()).state !== "unhealthy"; at++) {
          await daemon.pipe([["command", "Bank.Crash", {}]]);
          await new Promise((resolve) => setTimeout(resolve, 400));
        }
        await open(page, "overview");
        await page.locator(".attention", { hasText: "bank failed too often" }).waitFor();
        await open(page, "capabilities", "bank");
        await page.getByText("It failed too often. It is tried again in").waitFor();
        await page.locator("section", { hasText: "Its last words" }).getByText("the vault is empty").first().waitFor();
        await page.getByRole("button", { name: "Start now" }).click();
        await eventually("it is up", async () => (await bank()).state === "up");
        await page.locator(".detail-head .state", { hasText: "up" }).waitFor();
        if (process.env.MAINSPRING_GUESTS && (await daemon.query("Sys.Actors")).actors.some((actor) => actor.capabilityId === "guest")) {
          await open(page, "capabilities", "guest");
          await page.getByText("Why is it awake?").waitFor();
          await page.getByText("It sleeps, and costs no CPU").waitFor();
          let isOn = true;
          const wake = async () => {
            while (isOn) await daemon.pipe(Array.from({ length: 5 }, () => ["query", "Guest.Echo", 1]));
          };
          const waking = wake();
          await page.getByText("It waits properly: it wakes when there is something for it.").waitFor();
          await eventually("it says how often it is woken", async () => /woken [1-9][\d.,]* times a second/.test(await page.locator(".reasons").innerText()));
          isOn = false;
          await waking;
        }
      }),
  ],
  [
    "timers of everybody are listed and cancelled, and the journal tells what it keeps",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await open(page, "timers");
        await page.getByText("Nothing is scheduled").waitFor();
        await daemon.command("send", "Order.Place", '{"customer":"Later","quantity":1}', "--every", "60s", "--timer", "each-minute");
        await page.locator(".rows tbody tr", { hasText: "each-minute" }).waitFor();
        await page.getByRole("button", { name: "Cancel each-minute" }).click();
        await page.getByRole("button", { name: "Cancel the timer" }).click();
        await page.getByText("Nothing is scheduled").waitFor();
        assert.deepEqual((await daemon.query("Timer.List", { all: true })).timers, []);
        await open(page, "journal");
        await daemon.pipe([["command", "Order.Place", { customer: "Kept", quantity: 1 }]]);
        await eventually("facts are counted", async () => Number.parseInt(await page.locator(".tiles > div", { hasText: "Facts" }).locator("dd").innerText()) > 0);
        await page.getByText(`${daemon.folder}/journal`).waitFor();
      }),
  ],
];
