// Numbers as the terminal prints them: the same cases as tests/unit/view/test_view.c.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test from "node:test";

import * as format from "../../analyzer/view/html/page/src/format.js";

test("bytes", () => {
    const cases = [[0, "0 B"], [1023, "1023 B"], [1024, "1 KiB"], [2 ** 20 - 1, "1.00 MiB"], [2 ** 20 - 2 ** 9, "1.00 MiB"], [2 ** 20 - 2 ** 9 - 1, "1023 KiB"], [41030000000, "38.2 GiB"], [2 ** 64, "16 EiB"], [-1536, "−1.50 KiB"]];
    for (const [value, text] of cases)
        assert.equal(format.bytes(value), text);
    assert.equal(format.exact(1234567), "1,234,567 B");
    assert.equal(format.exact(-1234), "−1,234 B");
    assert.equal(format.change(2 ** 30), "+1 GiB");
    assert.equal(format.change(-(2 ** 30)), "−1 GiB");
    assert.equal(format.change(0), "0 B");
});

test("ties are rounded as printf rounds them", () => {
    const printf = (layout, values) => execFileSync("printf", [`${layout}\n`, ...values.map(String)], { encoding: "utf8", env: { ...process.env, LC_ALL: "C" } }).trim().split("\n");
    const eighths = Array.from({ length: 400 }, (_, i) => 1 + i / 8);
    const small = eighths.filter((x) => x < 9.995 && x % 1), middling = eighths.filter((x) => x >= 9.995 && x % 1);
    assert.deepEqual(small.map((x) => format.bytes(x * 2 ** 20)), printf("%.2f MiB", small));
    assert.deepEqual(middling.map((x) => format.bytes(x * 2 ** 20)), printf("%.1f MiB", middling));
    const shares = Array.from({ length: 79 }, (_, i) => (1 + i) / 8), large = Array.from({ length: 179 }, (_, i) => 10 + i / 2);
    assert.deepEqual(shares.map((x) => format.percent(x, 100)), printf("%.1f %%", shares));
    assert.deepEqual(large.map((x) => format.percent(x, 100)), printf("%.0f %%", large));
    const halves = Array.from({ length: 400 }, (_, i) => 100 + i / 2);
    assert.deepEqual(halves.map((x) => format.duration(x * 1e6)), printf("%.0f ms", halves));
});

test("durations, counts and shares", () => {
    for (const [ns, text] of [[0, "0 ns"], [21400000000, "21.4 s"], [999600000, "1.00 s"], [200e9, "3 min 20 s"], [7500e9, "2 h 5 min"]])
        assert.equal(format.duration(ns), text);
    assert.equal(format.count(1234567), "1,234,567");
    assert.equal(format.percent(1, 10000), "<0.1 %");
    assert.equal(format.percent(1, 3), "33 %");
    assert.equal(format.percent(1, 0), "–");
});

test("ticks are round, in order, and not more than asked for", () => {
    for (let span = 1; span < 1e13; span *= 3.7) {
        const found = format.ticks(span * 0.31, span * 1.31, 8);
        assert.ok(found.length >= 2 && found.length <= 9, `${span}: ${found}`);
        assert.ok(found.every((x, i) => x >= span * 0.31 * 0.999 && x <= span * 1.311 && (!i || x > found[i - 1])));
    }
    for (let high = 1; high < 1e14; high *= 3.1) {
        const found = format.byteTicks(high, 5);
        assert.ok(found.length <= 6 && Number.isInteger(Math.log2(found[1] ?? 1)));
    }
    assert.equal(format.byteTick(64 * 2 ** 20), "64 MiB");
    assert.equal(format.byteTick(1.5 * 2 ** 30), "1.5 GiB");
});
