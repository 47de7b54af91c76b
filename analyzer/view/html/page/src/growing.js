// What grows until the GPU is full, as bands over the picture: what leaks keep, and the cache of keys and values.

import { hatch } from "./gaps.js";
import * as format from "./format.js";
import { eachLeft, groupsOf, runsOf } from "./whatif.js";

/** "step 1,240, in 3 h 5 min at this pace": `step` is a forecast. */
export function forecastText(model, step) {
    const last = model.steps[model.steps.length - 1]?.step ?? 0, pace = model.device.median_duration_ns;
    return `step ${format.count(step)}${pace && step > last ? `, in ${format.duration((step - last) * pace)} at this pace` : ""}`;
}

const ofDevice = (document, model) => document?.devices?.find(({ index }) => index === model.device.index);

// What leaks keep is what the advice to end them would save.
async function leaksOf(model) {
    const report = ofDevice(await model.document("report"), model), leaks = ofDevice(await model.document("leaks"), model);
    const numbers = (report?.advice ?? []).flatMap(({ kind, same }, i) => (kind === "leak" && same ? [i] : []));
    const found = (leaks?.leaks ?? []).filter(({ leak }) => leak);
    if (!numbers.length || !found.length)
        return null;
    const full = found[0].forecast_step ? `, GPU full at ${forecastText(model, found[0].forecast_step)}` : "";
    const runs = runsOf(model, groupsOf(numbers, report.advice));
    const kept = found.reduce((sum, leak) => sum + leak.bytes_per_step, 0);
    return { colour: "--alarm", runs, text: `leak: ${format.change(kept)} per step${full}` };
}

async function cacheOf(model, category) {
    const inference = ofDevice(await model.document("report"), model)?.inference;
    if (!inference?.kv_cache_bytes_per_call)
        return null;
    const { calls_that_fit: calls, fit } = inference, bound = fit === "simulated" ? "" : `${fit} `;
    const full = calls === null || calls === undefined ? "" : `, GPU full after ${bound}${format.count(calls)} more calls`;
    return { colour: "--fg", category, text: `KV cache: ${format.change(inference.kv_cache_bytes_per_call)} per call${full}` };
}

/** The bands of a model: [{colour, text, and runs (whatif.js) or category}…] */
export async function growthOf(model) {
    if (model.isPreview)
        return [];
    const cache = model.categories.findIndex(({ name }) => name === "kv_cache");
    const cached = cache >= 0 && model.device.overview?.categories.kv_cache?.some((bytes) => bytes > 0);
    return (await Promise.all([model.device.leaks ? leaksOf(model) : null, cached ? cacheOf(model, cache) : null])).filter(Boolean);
}

/** Hatches each band; what it is stands in the upper left, where a run that grows leaves room. */
export function drawGrowth(timeline, context) {
    const { area, picture, source, colours, growth } = timeline, wide = area.width / picture.count;
    if (growth?.source !== source)
        return;
    growth.found.filter(({ runs }) => runs || !picture.whole).forEach(({ colour, runs, category, text }, row) => { // a category has no place among other bands
        const band = new Path2D();
        const put = (column, high, low) =>
            band.rect(area.left + column * wide, timeline.toY(high), wide + 0.25, timeline.toY(low) - timeline.toY(high));
        if (runs)
            eachLeft(timeline, runs, (column, used, left) => left < used && put(column, used, left));
        for (let column = 0; column < picture.count && !runs; column++) {
            const vector = picture.vectors.subarray(column * picture.width, (column + 1) * picture.width);
            const below = source.stacked.slice(0, source.stacked.indexOf(category)).reduce((sum, c) => sum + vector[c], 0);
            put(column, below + vector[category], below);
        }
        context.save();
        context.clip(band);
        hatch(context, area.left, area.top, area.width, area.height, colours.css("--bg"));
        context.restore();
        context.textAlign = "left";
        context.textBaseline = "middle";
        const said = context.measureText(text).width < area.width - 40 ? text : text.split(", ")[0];
        timeline.outlined(context, `▨ ${said}`, area.left + 10, area.top + 12 + 18 * row, colour);
    });
}
