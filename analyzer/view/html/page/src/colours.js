// One colour per category, the terminal's hues (analyzer/view/text/print.c), for a light and a dark page.
// tests/page/colours.test.mjs holds them to their contrast, and apart for those who see fewer colours.

import { made } from "./made.js";

export const COLOURS = {
    light: {
        parameter: "#0066c4", buffer: "#4594e0", optimizer_state: "#7a2aa5", gradient: "#dc7910", input: "#00838f", activation: "#2a6f35",
        kv_cache: "#6b8e23", checkpoint_copy: "#8c5a3c", temporary: "#8e8e99", workspace: "#a88600", communication: "#d94070", other: "#661122", unknown: "#383842",
        cached: "#767680", context: "#767680", host_pinned: "#767680",
    },
    dark: {
        parameter: "#1e90ff", buffer: "#9cceff", optimizer_state: "#9a45c8", gradient: "#ffa04a", input: "#00d7d7", activation: "#469646",
        kv_cache: "#9acd32", checkpoint_copy: "#c8956c", temporary: "#92929c", workspace: "#ffd700", communication: "#ff5f87", other: "#bb3377", unknown: "#ececf0",
        cached: "#85858f", context: "#85858f", host_pinned: "#85858f",
    },
};

// A picture of 8×8 points for each category: the second way to tell them apart. "#" is drawn lighter or darker.
const PATTERNS = {
    parameter: (x, y) => (x + y) % 8 === 0,
    buffer: (x) => x % 4 === 0,
    optimizer_state: (x, y) => (x - y + 8) % 8 === 0,
    gradient: (x, y) => (x % 4 === 0 && y % 4 === 0) || (x % 4 === 2 && y % 4 === 2),
    input: (x, y) => y % 4 === 0,
    activation: () => false,
    kv_cache: (x, y) => x % 4 === 0 || y % 4 === 0,
    checkpoint_copy: (x, y) => (x + 2 * y) % 8 < 2,
    temporary: (x, y) => ((x >> 2) + (y >> 2)) % 2 === 0,
    workspace: (x, y) => x % 8 === 2 && y % 8 === 2,
    communication: (x) => x % 8 < 3,
    other: (x, y) => x % 4 === 0 && y % 4 === 0,
    unknown: (x, y) => (x + y) % 8 === 0 || (x - y + 8) % 8 === 0,
};

// Bands of modules, lines or owners have hues of categories: these are known to be told apart by all eyes.
export const BANDS = {
    band_found: "communication", band_rest: "temporary", band_a: "parameter", band_b: "gradient", band_c: "activation", band_d: "optimizer_state",
    band_e: "workspace", band_f: "input", band_g: "checkpoint_copy", band_h: "buffer", band_i: "kv_cache", band_j: "other",
};
const ORDERED = [...Object.keys(COLOURS.light), ...Object.keys(BANDS)];

const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

function luminance(colour) {
    const [r, g, b] = channels(colour).map((c) => c / 255)
        .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a, b) {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
}

export function inkOn(colour) {
    return contrast(colour, "#000000") >= contrast(colour, "#ffffff") ? "#000000" : "#ffffff";
}

function mix(colour, other, share) {
    const to = channels(other);
    return `#${channels(colour).map((c, i) => Math.round(c * (1 - share) + to[i] * share).toString(16).padStart(2, "0")).join("")}`;
}

/** A colour as a point of an image (ABGR). */
export function colourWord(colour) {
    const [r, g, b] = channels(colour);
    return (0xff000000 | b << 16 | g << 8 | r) >>> 0;
}

export class Colours {
    constructor(root) {
        this.root = root;
        this.theme = "light";
        this.apply("light");
    }

    // Sets the page's variables --c-CATEGORY and --ink-CATEGORY.
    apply(theme) {
        this.theme = theme;
        this.root.dataset.theme = theme;
        for (const category of ORDERED) {
            this.root.style.setProperty(`--c-${category.replaceAll("_", "-")}`, this.of(category));
            this.root.style.setProperty(`--ink-${category.replaceAll("_", "-")}`, this.ink(category));
        }
        this.variables = new Map();
        this.patterns = new Map();
    }

    of(category) {
        return COLOURS[this.theme][BANDS[category] ?? category] ?? COLOURS[this.theme].unknown;
    }

    ink(category) {
        return inkOn(this.of(category));
    }

    css(variable) {
        return made(this.variables, variable, () => getComputedStyle(this.root).getPropertyValue(variable).trim());
    }

    // 64 colours as bytes of an image (ABGR), row by row.
    tile(category, patterned, faded) {
        return made(this.patterns, `${category} ${patterned} ${faded}`, () => {
            const base = faded ? mix(this.of(category), this.css("--bg"), 0.5) : this.of(category);
            const mark = mix(base, inkOn(base), 0.45);
            const marked = PATTERNS[BANDS[category] ?? category] ?? PATTERNS.unknown;
            return Uint32Array.from({ length: 64 }, (_, i) => colourWord(patterned && marked(i & 7, i >> 3) ? mark : base));
        });
    }
}
