// Dead letters: each of them, some, and all.
import { readFileSync } from "node:fs";
import { assert, atDaemon, eventually, open } from "./support.mjs";

export const tests = [
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
        await eventually("the edited one was done", async () => (await daemon.query("Sys.Logs", { capability: "bank" })).lines.some(({ text }) => text === "charged 7"));
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
];
