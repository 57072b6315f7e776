// Every panel with live data of a real daemon, and every action with its effect there.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { promisify } from "node:util";
import { program } from "../daemon.mjs";
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
        await page.locator(".virtual-row", { hasText: "Order.Place" }).waitFor();
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
        await daemon.pipe([["command", "Order.Place", { customer: "Grace O'Neil", quantity: 3 }]]);
        await pauseAndChoose(page, "Order.Place");
        const rows = page.locator(".tree tbody tr");
        await eventually("the whole tree is there", async () => (await rows.count()) === 3);
        assert.match(await rows.nth(1).innerText(), /Stock\.Reserve/);
        assert.ok((await page.locator(".fall-work").count()) >= 2);
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
          else await shell("sh", ["-c", copied.replace(/^mainspring/, `"${program}"`)], { env: { ...process.env, MAINSPRING_SOCKET: daemon.socket } });
        }
        assert.equal(await orders(), 2, "the copied command was run");
        await page.getByRole("button", { name: "Run again" }).click();
        await page.getByText("Sent Order.Place again.").waitFor();
        assert.equal(await orders(), 3);
        await page.waitForSelector(".panel-traces .trace");
        assert.ok((await page.locator(".panel-traces .virtual-row").count()) >= 2);
      }),
  ],
  [
    "a capability that fails shows why, and is started again from here",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await open(page, "capabilities", "orders");
        await page.getByText("orders listens").waitFor();
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
        }
      }),
  ],
  [
    "a form made from a schema sends, and the daemon's complaints stand at their field",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        await open(page, "call");
        await page.getByLabel("Search the catalogue").fill("place");
        await page.getByRole("link", { name: "Order.Place" }).click();
        await page.getByText("Places an order.").waitFor();
        assert.equal(await page.getByLabel("customer").inputValue(), "Ada", "the example is filled in");
        await page.getByLabel("customer").fill("x");
        await page.getByLabel("size").selectOption("large");
        await page.getByRole("button", { name: "Send" }).click();
        await page.getByText("422 Sys.SchemaError").waitFor();
        await page.locator(".field.wrong", { hasText: "customer" }).locator(".complaint").waitFor();
        assert.equal(await page.locator(".field.wrong").count(), 1);
        await page.getByLabel("customer").fill("Ada Lovelace");
        await page.keyboard.press("Control+Enter");
        await page.locator(".result", { hasText: "Ada Lovelace" }).waitFor();
        assert.equal((await daemon.query("Order.Count")).orders, 1);
        await page.getByRole("button", { name: "JSON", exact: true }).click();
        await page.getByLabel("Data as JSON").fill('{"customer": "By hand", "quantity": 7}');
        await page.getByRole("button", { name: "Send" }).click();
        await page.locator(".result", { hasText: "By hand" }).waitFor();
        await page.locator(".result").getByRole("link", { name: "Trace" }).click();
        await page.locator(".tree", { hasText: "Stock.Reserve" }).waitFor();
      }),
  ],
  [
    "dead letters are put back, edited, dropped and exported, one or many",
    async (browser) =>
      await atDaemon(browser, async (page, daemon) => {
        const letters = async () => (await daemon.query("Sys.DeadLetters", { action: "list" })).letters;
        for (let at = 0; at < 6 && (await letters()).length < 3; at++) {
          await daemon.pipe([["command", "Timer.Schedule", { delay: 0, message: { kind: "command", type: "Bank.Charge", data: { amount: 200 + at } } }]]);
          await new Promise((resolve) => setTimeout(resolve, 400));
        }
        assert.ok((await letters()).length >= 3, "an error of a schedule whose client has gone is a dead letter");
        const total = (await letters()).length;
        await open(page, "letters");
        await eventually("all are listed", async () => (await page.locator(".rows tbody tr").count()) === total);
        await page.getByRole("button", { name: "Bank.Charge" }).first().click();
        await page.locator("dialog", { hasText: '"amount": 200' }).waitFor();
        await page.getByRole("button", { name: "Edit" }).click();
        await page.locator("dialog textarea").fill("{ no json");
        await page.getByRole("button", { name: "Put back as edited" }).click();
        await page.getByText("This is no JSON").waitFor();
        await page.locator("dialog textarea").fill('{"amount": 7}');
        await page.getByRole("button", { name: "Put back as edited" }).click();
        await eventually("it is gone", async () => (await letters()).length === total - 1);
        const traced = await daemon.query("Sys.Trace", { latest: 50, type: "Bank.*" });
        assert.ok(traced.nodes.some((node) => node.data?.amount === 7 && node.outcome?.kind === "reply"), "the edited one was done");
        const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
        const lines = readFileSync(await download.path(), "utf8").trim().split("\n").map((line) => JSON.parse(line));
        assert.equal(lines.length, total - 1);
        assert.equal(lines[0].message.type, "Bank.Charge");
        await page.locator(".rows tbody input[type=checkbox]").first().check();
        await page.getByRole("button", { name: "Drop 1 marked" }).click();
        await page.locator("dialog").getByRole("button", { name: "Drop" }).click();
        await eventually("it is dropped", async () => (await letters()).length === total - 2);
        await page.getByLabel("Words of the reason").fill("nothing has this reason");
        await page.getByText("None fits").waitFor();
        await page.getByLabel("Words of the reason").fill("");
        await page.locator(".rows tbody tr").first().waitFor();
        const before = (await letters()).map((letter) => letter.number);
        await page.getByRole("button", { name: "Put back all" }).click();
        await page.getByText(/put back/).first().waitFor();
        await eventually("those were put back", async () => !(await letters()).some((letter) => before.includes(letter.number)));
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
