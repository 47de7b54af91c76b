// Colours: enough contrast, and neighbours apart for people who see fewer colours.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { BANDS, COLOURS, contrast, inkOn } from "../../analyzer/view/html/page/src/colours.js";

const BANDED = ["found", ..."abcdefghij", "rest"].map((name) => BANDS[`band_${name}`]); // as bands.js stacks them
const STYLE = readFileSync(new URL("../../analyzer/view/html/page/style.css", import.meta.url), "utf8");
const STACKED = ["parameter", "buffer", "optimizer_state", "gradient", "other", "input", "activation", "temporary", "workspace", "communication", "unknown"];

// Machado, Oliveira, Fernandes 2009: "A Physiologically-based Model for Simulation of Color Vision Deficiency", full severity.
const EYES = {
    usual: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    protan: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    deutan: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    tritan: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

function seen(colour, eye) {
    const linear = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    const [r, g, b] = EYES[eye].map((row) => Math.min(1, Math.max(0, row[0] * linear[0] + row[1] * linear[1] + row[2] * linear[2])));
    // Björn Ottosson's Oklab: equal distances look equally far apart.
    const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    return [0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s, 1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s, 0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s];
}

const distance = (a, b, eye) => Math.hypot(...seen(a, eye).map((value, i) => value - seen(b, eye)[i]));

function variables(theme) {
    const block = theme === "dark" ? STYLE.match(/:root\[data-theme="dark"\] \{([^}]*)\}/)[1] : STYLE.match(/:root \{([^}]*)\}/)[1];
    return Object.fromEntries([...block.matchAll(/(--[\w-]+): (#[0-9a-f]{6,8})/g)].map(([, name, value]) => [name, value]));
}

for (const theme of ["light", "dark"]) {
    const colours = COLOURS[theme];
    const page = variables(theme);

    test(`${theme}: a category's colour stands out from the page, and its label from it`, () => {
        for (const [category, colour] of Object.entries(colours)) {
            assert.ok(contrast(colour, page["--bg"]) >= 3, `${category} on the page: ${contrast(colour, page["--bg"]).toFixed(2)}`);
            assert.ok(contrast(colour, inkOn(colour)) >= 4.5, `label on ${category}`);
        }
    });

    test(`${theme}: text stands out from what is behind it`, () => {
        const behind = ["--bg", "--panel"];
        for (const text of ["--fg", "--muted", "--accent", "--alarm", "--more", "--less"])
            for (const ground of behind)
                assert.ok(contrast(page[text], page[ground]) >= 4.5, `${text} on ${ground}: ${contrast(page[text], page[ground]).toFixed(2)}`);
        for (const ground of ["--notice-bg", "--lane-a", "--lane-b", ...Object.keys(page).filter((name) => name.startsWith("--phase-"))])
            assert.ok(contrast(page["--fg"], page[ground]) >= 4.5, `--fg on ${ground}`);
        for (const flag of ["--accent", "--pin-b"])
            assert.ok(contrast(page["--bg"], page[flag]) >= 4.5, flag);
        assert.ok(contrast(page["--focus"], page["--bg"]) >= 3);
    });

    for (const eye of Object.keys(EYES))
        test(`${theme}, ${eye}: categories that touch can be told apart`, () => {
            for (const [next, least] of [[1, 0.07], [2, 0.04]])
                for (const order of [STACKED, BANDED])
                    for (let i = 0; i + next < order.length; i++) {
                        const apart = distance(colours[order[i]], colours[order[i + next]], eye);
                        assert.ok(apart >= least, `${order[i]} and ${order[i + next]}: ${apart.toFixed(3)}`);
                    }
        });
}
