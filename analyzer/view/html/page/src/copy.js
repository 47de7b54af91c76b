// What can be taken out of the page: a link to what is shown, and the timeline as a picture.

import { allOf, byId, clear, h as el } from "./dom.js";

const EDGE = 16;
const LINE = 20;

// The text in lines of a width.
function wrap(context, text, width) {
    const lines = [""];
    for (const word of text.split(/\s+/)) {
        const longer = lines[lines.length - 1] ? `${lines[lines.length - 1]} ${word}` : word;
        if (context.measureText(longer).width <= width)
            lines[lines.length - 1] = longer;
        else
            lines.push(word);
    }
    return lines;
}

// The timeline as it is drawn, below its title and verdict: a promise of a PNG.
function pictureOf(timeline, title, verdict) {
    const { base, overlay, ratio, width, height, colours } = timeline;
    const canvas = el("canvas"), context = canvas.getContext("2d");
    const family = getComputedStyle(document.body).fontFamily, titleFont = `600 15px ${family}`, font = `13px ${family}`;
    context.font = titleFont;
    const titles = wrap(context, title, width - 2 * EDGE);
    context.font = font;
    const lines = verdict.flatMap((text) => wrap(context, text, width - 2 * EDGE));
    const top = EDGE + LINE * (titles.length + lines.length) + EDGE / 2;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round((top + height) * ratio);
    context.fillStyle = colours.css("--bg");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(base, 0, Math.round(top * ratio));
    context.drawImage(overlay, 0, Math.round(top * ratio));
    context.scale(ratio, ratio);
    context.fillStyle = colours.css("--fg");
    context.textBaseline = "top";
    [...titles, ...lines].forEach((line, i) => {
        context.font = i < titles.length ? titleFont : font;
        context.fillText(line, EDGE, EDGE + i * LINE);
    });
    return new Promise((resolve) => {
        canvas.toBlob(resolve, "image/png");
    });
}

// Copies the picture, or saves it where a page may not write to the clipboard. Returns what it did.
async function copyPicture(timeline) {
    const title = byId("title").textContent + [...allOf("#facts span")].map((fact) => ` · ${fact.textContent}`).join("");
    const png = pictureOf(timeline, title, [...allOf("#verdict p")].map((paragraph) => paragraph.textContent));
    try {
        await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
        return "Picture copied.";
    } catch {
        const link = el("a", { href: URL.createObjectURL(await png), download: "vramtrace.png" });
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
        return "Picture saved as vramtrace.png.";
    }
}

export function listenToCopies(page) {
    let gone = 0;
    // For the eye and for a screen reader.
    const say = (text) => {
        page.announce(text);
        byId("done").textContent = text;
        clearTimeout(gone);
        gone = setTimeout(() => clear(byId("done")), 3000);
    };
    byId("copy-link").addEventListener("click", async () => {
        page.address.write(page.store.get(), page.model);
        const done = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
        say(done ? "Link copied." : "The address bar has the link: this browser does not let the page copy it.");
    });
    byId("copy-picture").addEventListener("click", async () => {
        page.store.set({ shown: true }); // a strip has no picture
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        page.timeline.draw();
        say(await copyPicture(page.timeline));
    });
}
