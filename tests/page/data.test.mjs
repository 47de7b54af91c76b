// Decoding, and what is said of damaged data.
import assert from "node:assert/strict";
import test from "node:test";

import { DataError, deltas, fromBase64, numbers, predicted, run, sums } from "../../analyzer/view/html/page/src/data.js";
import { Reader } from "../../analyzer/view/html/page/src/reader.js";
import * as encode from "./encode.mjs";
import { makePage, makeTrace, random } from "./synthetic.mjs";

const quiet = async () => {};
const decode = (steps) => run(steps, quiet);

test("numbers and differences come back", async () => {
    const values = [0, 1, 127, 128, 16383, 16384, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1];
    assert.deepEqual([...await decode(numbers(encode.numbers(values), values.length, "x"))], values);
    const signed = [5, 3, 3, 1000000, -7, 0, 2 ** 40];
    assert.deepEqual([...await decode(deltas(encode.deltas(signed), signed.length, "x"))], signed);
    assert.deepEqual([...await decode(sums(encode.numbers([0, 0, 2, 0]), 4, "x", 1))], [0, 1, 4, 5]);
    assert.deepEqual([...await decode(sums(encode.numbers([0, 0, 2, 0]), 4, "x", 0))], [0, 0, 2, 2]);
});

test("predicted columns come back; both encoders of the tests agree", async () => {
    const rand = random(3);
    const classes = Array.from({ length: 5000 }, (_, i) => (i % 700 < 650 ? i % 700 : Math.floor(rand() * 100000)));
    const values = classes.map((k, i) => (i % 50 ? k * 3 : Math.floor(rand() * 2 ** 31)));
    const packed = encode.predicted(classes, classes, true);
    assert.deepEqual(packed, encode.predictedFast(classes, classes, true));
    assert.deepEqual(encode.predicted(values, classes, false), encode.predictedFast(values, classes, false));
    assert.deepEqual([...await decode(predicted(packed, classes.length, "class", null))], classes);
    assert.deepEqual([...await decode(predicted(encode.predicted(values, classes, false), values.length, "size", classes))], values);
});

test("a column that is too short or too long is damaged", async () => {
    for (const [raw, count] of [[[1, 2], 3], [[1, 0x80], 2], [[1, 2, 3], 2], [[], 1]]) {
        await assert.rejects(() => decode(numbers(Uint8Array.from(raw), count, "x")), DataError);
        await assert.rejects(() => decode(predicted(Uint8Array.from(raw), count, "x", null)), DataError);
    }
});

test("text that is not base64 is damaged", () => {
    assert.throws(() => fromBase64("%%%"), DataError);
});

test("any flipped byte is told or leaves a trace that can be read, never hangs", async () => {
    const page = makePage([makeTrace({ events: 600 })]);
    const good = Buffer.from(page.base64, "base64");
    const rand = random(5);
    let told = 0;
    for (let i = 0; i < 60; i++) {
        const bad = Buffer.from(good);
        bad[Math.floor(rand() * bad.length)] ^= 1 << Math.floor(rand() * 8);
        try {
            await new Reader(page.head, bad.toString("base64")).trace(0, quiet);
        } catch (error) {
            told++;
            assert.ok(error instanceof DataError || error instanceof SyntaxError || error instanceof TypeError, String(error.stack));
        }
    }
    assert.ok(told > 20, `${told} of 60 were told`);
});

test("data that ends too early is told", async () => {
    const page = makePage([makeTrace({ events: 600 })]);
    const cut = Buffer.from(page.base64, "base64").subarray(0, 2000).toString("base64");
    await assert.rejects(() => new Reader(page.head, cut).trace(0, quiet), DataError);
});
