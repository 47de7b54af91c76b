// Numbers as people read them; the same as in the terminal (analyzer/base/format.c).

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

// printf rounds ties to even, toFixed away from zero: 9.125 is 9.12 in the terminal.
function fixed(value, digits) {
    const text = value.toFixed(digits);
    const tie = Math.abs((value * 2 ** (digits + 1)) % 2) === 1;
    return tie && /[13579]$/.test(text) ? (Number(text) - Math.sign(value) * 10 ** -digits).toFixed(digits) : text;
}

// A size in the unit in which it is less than `most`, but for the first, which has less than 1024.
function inUnit(size, most) {
    let unit = 0;
    let scaled = size;
    while (scaled >= (unit ? most : 1024) && unit + 1 < UNITS.length) {
        scaled /= 1024;
        unit++;
    }
    return [scaled, UNITS[unit]];
}

export function bytes(value) {
    const size = Math.abs(value);
    if (size < 1024)
        return `${value < 0 ? "−" : ""}${Math.round(size)} B`;
    const [scaled, unit] = inUnit(size, 1023.5); // 1023.6 MiB would print as 1024 MiB: it is 1.00 GiB
    const digits = Number.isInteger(scaled) || scaled >= 99.95 ? 0 : scaled >= 9.995 ? 1 : 2;
    return `${value < 0 ? "−" : ""}${fixed(scaled, digits)} ${unit}`;
}

export function count(value) {
    return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function exact(value) {
    return `${value < 0 ? "−" : ""}${count(Math.abs(value))} B`;
}

export function change(difference) {
    return `${difference > 0 ? "+" : ""}${bytes(difference)}`;
}

/** "20.0–24.0 MiB": in the larger's unit, with few digits. */
export function range(low, high) {
    const [text, unit] = bytes(high).split(" "), number = Number(text);
    const digits = high < 1024 || number >= 100 ? 0 : number >= 10 ? 1 : 2;
    const least = number * (low / high);
    if (fixed(least, digits) === fixed(number, digits))
        return bytes(high);
    return `${digits && low && least < 0.005 ? "<0.01" : fixed(least, digits)}–${fixed(number, digits)} ${unit}`;
}

export function percent(part, whole) {
    if (!whole)
        return "–";
    const share = (100 * part) / whole;
    if (part > 0 && share < 0.05)
        return "<0.1 %";
    if (part < whole && share >= 99.5)
        return ">99 %";
    return `${fixed(share, part && Math.abs(share) < 9.95 ? 1 : 0).replace("-", "−")} %`;
}

export function duration(ns) {
    if (ns < 0)
        return `−${duration(-ns)}`;
    const seconds = ns / 1e9;
    const whole = Math.floor(seconds);
    if (ns < 1000)
        return `${Math.round(ns)} ns`;
    if (ns < 1e6)
        return `${fixed(seconds * 1e6, 1)} µs`;
    if (ns < 999.5e6)
        return `${fixed(seconds * 1e3, ns < 99.95e6 ? 1 : 0)} ms`;
    if (seconds < 99.95)
        return `${fixed(seconds, seconds < 9.995 ? 2 : 1)} s`;
    if (whole < 3600)
        return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    if (whole < 172800)
        return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
    return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

const digitsFor = (resolution) => Math.max(0, Math.min(9, Math.ceil(9 - Math.log10(Math.max(1, resolution)))));

// A moment in seconds, with as many digits as tell it from another that is `resolution` ns away.
export function seconds(ns, resolution = 1e6) {
    const digits = digitsFor(resolution);
    const whole = ns / 1e9;
    if (whole < 600)
        return `${whole.toFixed(digits)} s`;
    const hours = Math.floor(whole / 3600);
    const minutes = Math.floor(whole / 60) % 60;
    const rest = (whole % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
    return `${hours ? `${hours}:${String(minutes).padStart(2, "0")}` : minutes}:${rest}`;
}

// The same, in milliseconds before the first second is over.
export function time(ns, resolution = 1e6) {
    return ns < 1e9 ? `${(ns / 1e6).toFixed(Math.max(1, digitsFor(resolution) - 3))} ms` : seconds(ns, resolution);
}

export function address(value) {
    return value ? `0x${value.toString(16)}` : "–";
}

// Round steps for an axis of bytes: 1, 2, 4, 8 … of a binary unit. `most` steps at most.
export function byteTicks(high, most) {
    let step = 1;
    while (high / step > most)
        step *= 2;
    const ticks = [];
    for (let value = 0; value <= high * (1 + 1e-9); value += step)
        ticks.push(value);
    return ticks;
}

export function byteTick(value) {
    const [scaled, unit] = inUnit(value, 1024);
    return value ? `${Number(fixed(scaled, 2))} ${unit}` : "0";
}

// Round steps of 1, 2, 5 · 10^n within low..high; at least `least`.
export function ticks(low, high, most, least = 0) {
    const span = high - low;
    if (!(span > 0))
        return [low];
    let step = 10 ** Math.floor(Math.log10(span / most));
    for (const factor of [2, 2.5, 2])
        if (span / step > most)
            step *= factor;
    step = Math.max(step, least);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + 1e-12; i++)
        found.push(i * step);
    return found;
}

/** "leak.py:15 main" of a place in some folder: where there is no room for more, its number is what counts. */
export function shortPlace(place) {
    return place.replace(/^.*\/(?=[^/]+:\d)/, "");
}
