// What can be drawn before the columns are read: the overview that stands in the page's head.

import { timeAxis } from "./axis.js";
import { stackedOf } from "./model.js";

export class Preview {
    constructor(head, traceIndex, device) {
        this.trace = head.traces[traceIndex];
        this.device = device;
        this.categories = this.trace.categories;
        this.bands = stackedOf(this.categories).map((c) => ({ ...this.categories[c], index: c }));
        this.driverAt = this.categories.length;
        this.cachedAt = this.categories.findIndex(({ name }) => name === "cached");
        this.steps = [];
        this.isPreview = true;
        const none = { t_ns: [], end_ns: [] };
        this.time = timeAxis({ trace: this.trace, gaps: none, phases: none, steps: [], timeOf: () => 0, changeAtTime: () => -1 });
    }

    axis() {
        return this.time;
    }

    picture(axis, lo, hi, count) {
        const { overview } = this.device;
        const width = this.categories.length + 2;
        const picture = { count, width, change: new Int32Array(count).fill(-1), gap: new Uint8Array(count), vectors: new Float64Array(count * width) };
        for (let column = 0; column < count && overview.columns; column++) {
            const x = lo + ((column + 0.5) * (hi - lo)) / count;
            const from = Math.max(0, Math.min(overview.columns - 1, Math.floor((x / axis.hi) * overview.columns)));
            this.categories.forEach(({ name }, c) => {
                picture.vectors[column * width + c] = overview.categories[name]?.[from] ?? 0;
            });
            picture.vectors[column * width + this.driverAt] = overview.driver_bytes[from] ?? 0;
        }
        return picture;
    }
}
