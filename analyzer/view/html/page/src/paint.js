import { colourWord } from "./colours.js";
import { hatched } from "./gaps.js";

// The stacked picture of a device, column by column, straight into an image: a column of points per column of the
// picture. Bands are parted by a line, so that neighbours stay apart without their colours.

// `area` in points of the canvas. `scale` bytes = its height. `reserved`: what the driver gave beyond is shown too, as high as so
// many bytes.
export function paintBands(context, area, picture, source, scale, colours, { highlight = null, patterns = false, reserved = null } = {}) {
    const { left, top, width, height } = area;
    if (width < 1 || height < 1)
        return;
    const image = new ImageData(width, height);
    const points = new Uint32Array(image.data.buffer);
    const tiles = source.bands.map(({ name }) => colours.tile(name, patterns, Boolean(highlight) && highlight !== name));
    const gap = colourWord(colours.css("--bg"));
    const reserve = colourWord(colours.css("--reserve"));
    const perByte = height / scale;
    const unknown = colourWord(colours.css("--gap"));
    for (let x = 0; x < width; x++) {
        const column = Math.min(picture.count - 1, Math.floor((x * picture.count) / width));
        const at = column * picture.width;
        for (let row = 0; row < height && picture.gap[column]; row++)
            if (hatched(x, row))
                points[row * width + x] = unknown;
        if (picture.gap[column])
            continue;
        let bytes = 0;
        let y = height;
        let last = -1;
        for (let band = 0; band < tiles.length; band++) {
            const own = picture.vectors[at + source.bands[band].index];
            if (!(own > 0))
                continue;
            bytes += own;
            const to = Math.max(0, Math.round(height - bytes * perByte));
            const tile = tiles[band];
            for (let row = y - 1; row >= to; row--)
                points[row * width + x] = tile[((row & 7) << 3) | (x & 7)];
            if (last >= 0 && y - to > 2 && y < height)
                points[(y - 1) * width + x] = gap;
            if (to < y)
                last = band;
            y = to;
        }
        const driver = reserved ? Math.max(0, Math.round(height - reserved(picture.vectors[at + source.driverAt]) * perByte)) : height;
        for (let row = y - 1; row >= driver; row--)
            points[row * width + x] = reserve;
    }
    context.putImageData(image, left, top);
}

// The most bytes of any column: in use, what the driver gave, and what of it is cached.
export function heights(picture, source) {
    let used = 0;
    let driver = 0;
    let cached = 0;
    for (let column = 0; column < picture.count; column++) {
        let sum = 0;
        for (const { index } of source.bands)
            sum += picture.vectors[column * picture.width + index];
        used = Math.max(used, sum);
        driver = Math.max(driver, picture.vectors[column * picture.width + source.driverAt]);
        cached = Math.max(cached, picture.vectors[column * picture.width + source.cachedAt]);
    }
    return { used, driver, cached };
}

// The name of the band that is at `bytes` above the ground of a column; null = none.
export function bandAt(picture, source, column, bytes) {
    let sum = 0;
    for (const { name, index } of source.bands) {
        sum += picture.vectors[column * picture.width + index];
        if (bytes < sum)
            return name;
    }
    return null;
}

// Where the label of each band has room: [{name, label, x, y}] in the same units as `width` and `height`. `above` is the band of what
// the driver gave beyond, as high as so many bytes: reserved().
export function labelPlaces(picture, source, { width, height, scale }, measure, lineHeight, above, reserved) {
    const below = new Float64Array(picture.count);
    const perByte = height / scale;
    const perColumn = width / picture.count;
    const places = [];
    for (const { name, label, index } of [...source.bands, above]) {
        const span = Math.ceil((measure(label) + 10) / perColumn);
        let best = lineHeight - 1;
        let place = null;
        const step = Math.max(1, Math.floor(6 / perColumn));
        for (let from = 0; from + span <= picture.count; from += step) {
            let low = 0;
            let high = Infinity;
            for (let column = from; column < from + span && high - low > best; column += step) {
                low = Math.max(low, below[column] * perByte);
                const own = picture.vectors[column * picture.width + index];
                high = Math.min(high, (index === source.driverAt ? reserved(own) : below[column] + own) * perByte, height);
            }
            if (high - low > best) {
                best = high - low;
                place = { name, label, x: (from + span / 2) * perColumn, y: height - (low + high) / 2 };
                if (best > 4 * lineHeight)
                    break;
            }
        }
        if (place)
            places.push(place);
        for (let column = 0; column < picture.count; column++)
            below[column] += picture.vectors[column * picture.width + index];
    }
    return places;
}
