import test from "node:test";
import assert from "node:assert/strict";
import { peaksOf } from "../../analyzer/view/html/page/src/parts/diff_steps.js";
import { usualTab } from "../../analyzer/view/html/page/src/badges.js";

const steps = (first, ...peaks) => peaks.map((bytes, i) => ({ step: first + i, peak_used_bytes: bytes }));

test("steps of two runs stand at their numbers, whichever run begins or ends first", () => {
    const [first, last, [a, b]] = peaksOf([steps(3, 30, 40), steps(1, 10, 20, 31)]);
    assert.deepEqual([first, last, [...a], [...b]], [1, 4, [NaN, NaN, 30, 40], [10, 20, 31, NaN]]);
    assert.equal(peaksOf([[], []]), null);
    assert.deepEqual([...peaksOf([[], steps(7, 5)])[2][0]], [NaN]);
});

test("a page that was made to compare opens at the comparison, even where there is a leak", () => {
    const trace = { failed_requests: [] }, device = { index: 0, leaks: 1 };
    assert.equal(usualTab(trace, device, { diff: {} }), "diff");
    assert.equal(usualTab(trace, device, { diff: null }), "leaks");
});
