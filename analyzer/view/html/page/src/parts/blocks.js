// Blocks over time: each a bar from its begin to its end, stacked or by address. With too many to draw one by
// one, the blocks of a class are one band; what is summed up is said so.
import { h, name, clear, toggle, visible } from "./dom.js";
import { instantOf, isUsed, NEVER, categoryLabel } from "./view.js";
import { createCanvas } from "./canvas.js";
import { createDetails } from "./details.js";
import { MOST_BLOCKS, gather, stack, bandAt, ranges, offsetOf, columnAt } from "./blocks_layout.js";

const LEFT = 76, BOTTOM = 20, TOP = 6;

function create(root, context) {
  const { store, model, format, colours } = context;
  let way = "stacked", asked = "", run = 0, samples = null, zoom = null, gathered = null, axis = null, found = null, picture = null, chosen = null, hovered = null, at = 0, theme = null, gone = false, dragged = null, origin = LEFT, scale = 1;

  const keep = Uint8Array.from(model.classes, (klass) => (isUsed(klass) && klass.device === model.device.index ? 1 : 0));
  const status = h("p", { class: "vp-heading", role: "status" }), hint = h("p", { class: "vp-hover", "aria-hidden": "true" });
  const canvas = createCanvas({ class: "vp-blockscanvas", tabindex: "0", role: "application", "aria-label": "Blocks over time. Up and down choose a block at the instant; left and right move the instant.",
    onpointermove: point, onpointerleave: leave, onpointerdown: press, onpointerup: release, onwheel: wheel, onkeydown: key }, draw);
  const details = createDetails(context, "Choose a block or a band to see who made it.");
  root.append(h("div", { class: "vp-blocks" }, h("div", { class: "vp-left" },
    h("div", { class: "vp-bar" }, status, toggle("Height", [["stacked", "Stacked"], ["address", "Address"]], way, (value) => { way = value; layout(); canvas.redraw(); })),
    canvas.element, hint), h("div", { class: "vp-right" }, details.element)));

  /* ---- What is drawn ---- */

  const plotWidth = () => Math.max(1, Math.floor(canvas.width - LEFT));
  const plotHeight = () => Math.max(1, canvas.height - BOTTOM - TOP);

  function refresh() {
    const state = store.get(), columns = Math.min(1600, plotWidth());
    const key = `${state.axis} ${state.zoom} ${columns}`;
    if (key === asked) return;
    asked = key;
    axis = model.axis(state.axis);
    zoom = [...state.zoom];
    const mine = ++run, span = [...zoom], next = Array.from(model.picture(axis, zoom[0], zoom[1], columns).change, (change) => Math.max(0, change));
    status.textContent = found ? status.textContent : "Gathering blocks …";
    gather(model, next, keep, () => new Promise((resolve) => { setTimeout(() => resolve(gone || mine !== run)); })).then((result) => {
      if (!result || gone || mine !== run) return;
      [found, samples, gathered] = [result, next, span];
      layout();
      say();
      canvas.redraw();
    });
  }

  function layout() {
    if (!found) return;
    picture = stack(model, found, 0);
    const most = Math.max(1, ...picture.level);
    if (found.single) picture = stack(model, found, (0.5 * most) / plotHeight());
    picture.most = most;
    if (way === "address") picture.places = places();
  }

  /* Addresses: what is reserved at any sample, and what lies outside of it. */
  function places() {
    const pieces = [], last = samples[samples.length - 1], add = (i) => {
      const klass = model.classes[model.klass[i]];
      if (klass.device === model.device.index && (klass.cached > 0 || keep[model.klass[i]])) pieces.push({ address: model.address(i), bytes: model.bytes(i) });
    };
    model.alive(samples[0]).forEach(add);
    if (found.single) for (let n = 0; n < found.spans.count; n++) add(found.spans.allocation[n]);
    model.alive(last).forEach(add);
    return ranges(pieces);
  }

  function say() {
    const { seen, unseen, single } = found, singles = single ? picture.bands.filter((band) => band.allocation >= 0).length : 0;
    const text = single ? `${format.count(singles)} blocks one by one${seen > singles ? `, ${format.count(seen - singles)} too low to be drawn are summed on top` : ""}`
      : `${format.count(seen)} blocks as ${format.count(picture.bands.length)} bands of equal blocks: zoom in to see each`;
    status.textContent = `${text}${unseen ? `; ${format.count(unseen)} live between two columns` : ""}.`;
  }

  /* ---- Drawing ---- */

  const yOf = (bytes) => TOP + plotHeight() * (1 - bytes / (way === "address" && picture.places ? Math.max(1, picture.places.bytes) : picture.most));

  function draw(pen, width, height) {
    refresh();
    if (!picture) return;
    if (way === "address" && !picture.places) picture.places = places();
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT, height - BOTTOM);
    pen.clip();
    // While another part is being gathered, what is there is shown where it belongs.
    const perUnit = plotWidth() / (zoom[1] - zoom[0]);
    origin = LEFT + (gathered[0] - zoom[0]) * perUnit;
    scale = ((gathered[1] - gathered[0]) * perUnit) / found.columns;
    if (way === "stacked") for (const band of picture.bands) fillBand(pen, band);
    else if (found.single) drawAddresses(pen);
    selection(pen);
    instant(pen, height);
    pen.restore();
    if (way === "address" && !found.single) message(pen, `${format.count(found.seen)} blocks: zoom in to fewer than ${format.count(MOST_BLOCKS)} to see them by address`, width, height);
    axes(pen, width, height);
  }

  function trace(pen, band) {
    const count = band.until - band.first, height = (c) => (band.heights ? band.heights[c] : band.bytes), x = (c) => origin + c * scale;
    pen.beginPath();
    pen.moveTo(x(band.first), yOf(band.bottom[0]));
    let before = NaN;
    for (let i = 0; i < count; i++) {
      const c = band.first + i, top = band.bottom[i] + height(c);
      if (top !== before) {
        if (i) pen.lineTo(x(c), yOf(before));
        pen.lineTo(x(c), yOf(top));
      }
      before = top;
    }
    pen.lineTo(x(band.until), yOf(before));
    before = NaN;
    for (let i = count - 1; i >= 0; i--) {
      const c = band.first + i;
      if (band.bottom[i] !== before) {
        if (i < count - 1) pen.lineTo(x(c + 1), yOf(before));
        pen.lineTo(x(c + 1), yOf(band.bottom[i]));
      }
      before = band.bottom[i];
    }
    pen.lineTo(x(band.first), yOf(before));
    pen.closePath();
  }

  function fillBand(pen, band) {
    trace(pen, band);
    pen.fillStyle = colours.of(band.category);
    pen.fill();
    const tall = ((band.heights ? 0 : band.bytes) / picture.most) * plotHeight();
    if (band.heights || tall > 3) {
      pen.strokeStyle = colours.css("--bg");
      pen.lineWidth = 0.75;
      pen.stroke();
    }
  }

  function rectOf(allocation, first, until) {
    const offset = offsetOf(picture.places.ranges, model.address(allocation));
    if (offset < 0) return null;
    const top = yOf(offset + model.bytes(allocation)), bottom = yOf(offset);
    return [origin + first * scale, top, Math.max(1, (until - first) * scale), Math.max(0.5, bottom - top)];
  }

  function drawAddresses(pen) {
    const { spans } = found;
    for (let n = 0; n < spans.count; n++) {
      const rect = rectOf(spans.allocation[n], spans.first[n], spans.until[n]);
      if (!rect) continue;
      pen.fillStyle = colours.of(model.classes[model.klass[spans.allocation[n]]].category);
      pen.fillRect(...rect);
      if (rect[3] > 4 && rect[2] > 4) {
        pen.strokeStyle = colours.css("--bg");
        pen.lineWidth = 0.5;
        pen.strokeRect(...rect);
      }
    }
    pen.strokeStyle = colours.css("--line");
    pen.lineWidth = 1;
    for (const range of picture.places.ranges) pen.strokeRect(LEFT, yOf(range.offset), plotWidth(), 0);
  }

  const bandOf = (allocation) => picture.bands.find((band) => band.allocation === allocation);

  /* The chosen block: outlined, and from where it was made a line to where it was freed. */
  function selection(pen) {
    for (const [allocation, colour, thick] of [[hovered?.allocation ?? -1, "--muted", 2], [chosen ?? -1, "--focus", 3]]) {
      if (allocation < 0) continue;
      const band = bandOf(allocation);
      pen.strokeStyle = colours.css(colour);
      pen.lineWidth = thick;
      if (way === "stacked" && band) {
        trace(pen, band);
        pen.stroke();
      } else if (way === "address" && found.single) {
        const rect = rectOf(allocation, columnAt(samples, model.begin[allocation]), columnAt(samples, model.end[allocation]));
        if (rect) pen.strokeRect(...rect);
      }
    }
    if (chosen !== null) life(pen);
  }

  function life(pen) {
    const begin = model.begin[chosen], end = model.end[chosen], x = (change) => LEFT + ((axis.of(change) - zoom[0]) / (zoom[1] - zoom[0])) * plotWidth();
    const from = x(begin), to = end === NEVER ? LEFT + plotWidth() : x(end), y = TOP + 10;
    pen.strokeStyle = pen.fillStyle = colours.css("--fg");
    pen.lineWidth = 1.5;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(from, TOP + plotHeight());
    pen.lineTo(from, y);
    pen.lineTo(to, y);
    if (end !== NEVER) pen.lineTo(to, TOP + plotHeight());
    pen.stroke();
    pen.setLineDash([]);
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "bottom";
    pen.textAlign = "left";
    pen.fillText(`made in ${phaseText(begin)}`, Math.max(LEFT + 2, from + 3), y - 1);
    if (end !== NEVER && to < LEFT + plotWidth() - 90) pen.fillText(`freed in ${phaseText(end)}`, to + 3, y + 12);
  }

  function phaseText(change) {
    const state = model.state(change);
    return `${state.phase}${state.step ? ` of step ${state.step}` : ""}`;
  }

  function instant(pen, height) {
    const x = LEFT + ((axis.of(at) - zoom[0]) / (zoom[1] - zoom[0])) * plotWidth();
    pen.fillStyle = colours.css("--fg");
    pen.fillRect(Math.round(x), 0, 1, height);
  }

  function message(pen, text, width, height) {
    pen.font = "13px system-ui, sans-serif";
    pen.fillStyle = colours.css("--fg");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(text, LEFT + (width - LEFT) / 2, height / 2);
  }

  function axes(pen, width, height) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colours.css("--muted");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const whole = way === "address" ? picture.places.bytes : picture.most;
    for (const value of format.byteTicks ? format.byteTicks(whole, 5) : [0, whole])
      pen.fillText(format.byteTick ? format.byteTick(value) : format.bytes(value), LEFT - 6, Math.min(height - BOTTOM - 4, Math.max(8, yOf(value))));
    pen.textBaseline = "top";
    pen.textAlign = "center";
    for (const tick of axis.ticks ? axis.ticks(zoom[0], zoom[1], 8) : [])
      pen.fillText(tick.text, LEFT + ((tick.x - zoom[0]) / (zoom[1] - zoom[0])) * plotWidth(), height - BOTTOM + 5);
  }

  /* ---- Pointing ---- */

  function under(event) {
    if (!picture) return null;
    const box = canvas.element.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const column = Math.floor((x - origin) / scale);
    if (column < 0 || column >= found.columns || y > canvas.height - BOTTOM) return null;
    if (way === "stacked") return bandAt(picture.bands, column, ((TOP + plotHeight() - y) / plotHeight()) * picture.most);
    if (!found.single) return null;
    const offset = ((TOP + plotHeight() - y) / plotHeight()) * picture.places.bytes, { spans } = found;
    for (let n = 0; n < spans.count; n++) {
      if (column < spans.first[n] || column >= spans.until[n]) continue;
      const start = offsetOf(picture.places.ranges, model.address(spans.allocation[n]));
      if (start >= 0 && offset >= start && offset < start + model.bytes(spans.allocation[n])) return { allocation: spans.allocation[n], category: "", blocks: 1, heights: null };
    }
    return null;
  }

  function textOf(band) {
    if (band.allocation >= 0) {
      const klass = model.classes[model.klass[band.allocation]], bytes = model.bytes(band.allocation), end = model.end[band.allocation];
      return `${klass.label || klass.place?.name || klass.kind} · ${format.bytes(bytes)} (${format.exact(bytes)}) · ${categoryLabel(model, klass.category)} · made in ${phaseText(model.begin[band.allocation])}, ${end === NEVER ? "never freed" : `freed in ${phaseText(end)}`}`;
    }
    if (band.klass !== undefined) {
      const klass = model.classes[band.klass];
      return `${klass.label || klass.place?.name || klass.kind} · ${format.count(band.blocks)} blocks of ${format.bytes(band.largest)} at most · ${categoryLabel(model, klass.category)}`;
    }
    return `${format.count(band.blocks)} smaller blocks · ${categoryLabel(model, band.category)}`;
  }

  function point(event) {
    if (dragged) return drag(event);
    hovered = under(event);
    clear(hint);
    if (hovered) hint.append(name(textOf(hovered)));
    canvas.redraw();
    return undefined;
  }
  function leave() {
    hovered = null;
    clear(hint);
    canvas.redraw();
  }
  function press(event) {
    dragged = { x: event.clientX, zoom: [...store.get().zoom], moved: false };
    canvas.element.setPointerCapture(event.pointerId);
  }
  function drag(event) {
    const by = ((dragged.x - event.clientX) / plotWidth()) * (dragged.zoom[1] - dragged.zoom[0]);
    if (Math.abs(dragged.x - event.clientX) > 3) dragged.moved = true;
    if (dragged.moved) setZoom(dragged.zoom[0] + by, dragged.zoom[1] + by);
  }
  function release(event) {
    const click = dragged && !dragged.moved;
    dragged = null;
    if (click) choose(under(event));
  }
  function setZoom(lo, hi) {
    const whole = model.axis(store.get().axis), span = Math.min(hi - lo, whole.hi - whole.lo), start = Math.max(whole.lo, Math.min(lo, whole.hi - span));
    store.set({ zoom: [start, start + span] });
  }
  function wheel(event) {
    event.preventDefault();
    const whole = model.axis(store.get().axis), [lo, hi] = store.get().zoom, box = canvas.element.getBoundingClientRect();
    const centre = lo + (Math.max(0, event.clientX - box.left - LEFT) / plotWidth()) * (hi - lo), factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200)));
    const span = Math.max(whole.least, (hi - lo) * factor);
    setZoom(centre - ((centre - lo) / (hi - lo)) * span, centre + ((hi - centre) / (hi - lo)) * span);
  }

  function choose(band) {
    if (!band) return;
    const aggregated = band.allocation < 0;
    if (aggregated && band.klass === undefined) return void context.announce(textOf(band));
    const index = aggregated ? band.klass : model.klass[band.allocation], klass = model.classes[index];
    chosen = aggregated ? null : band.allocation;
    details.show({ index, klass, bytes: aggregated ? Math.max(...band.heights) : model.bytes(band.allocation), blocks: band.blocks, allocation: chosen }, chosen);
    if (!aggregated) store.set({ selection: { kind: "block", key: String(band.allocation) } });
    context.announce(visible(textOf(band)));
    canvas.redraw();
    return undefined;
  }

  /* Up and down: from band to band at the instant. Other keys are the page's. */
  function key(event) {
    const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!step || !picture) return;
    event.preventDefault();
    event.stopPropagation();
    const column = Math.max(0, Math.min(found.columns - 1, columnAt(samples, at + 1) - 1));
    const there = picture.bands.filter((band) => column >= band.first && column < band.until && (!band.heights || band.heights[column] > 0));
    const now = there.findIndex((band) => (chosen !== null ? band.allocation === chosen : band === hovered));
    const next = there[Math.max(0, Math.min(there.length - 1, now < 0 ? (step > 0 ? 0 : there.length - 1) : now + step))];
    hovered = next ?? null;
    choose(next);
  }

  function update(state) {
    const instant = instantOf(state, model), key = state.selection?.kind === "block" ? Number(state.selection.key) : null;
    if (key !== chosen && key !== null && key < model.begin.length) {
      const index = model.klass[key];
      details.show({ index, klass: model.classes[index], bytes: model.bytes(key), blocks: 1, allocation: key }, key);
    }
    if (key !== chosen || instant !== at || state.theme !== theme || `${state.zoom}` !== `${zoom}` || axis?.name !== state.axis) canvas.redraw();
    [chosen, at, theme] = [key, instant, state.theme];
  }

  update(store.get());
  return { update, destroy() { gone = true; canvas.destroy(); clear(root); } };
}

export const part = { id: "blocks", title: "Blocks", create };
