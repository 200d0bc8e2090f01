/* ---- a grid of cells: instances at their points, or elements of an array; further dimensions are slices ---- */

class Grid {
  constructor(side, panel, header, items, spaces, ranks, kind, style) {
    Object.assign(this, {side, items, spaces, ranks, kind, style, space: Object.keys(spaces)[0]});
    this.choices = make(header, "div", "choices");
    this.facets = make(panel, "div", "facets");
    this.chosen = {};
    this.prepare();
  }

  get dims() { return this.spaces[this.space].dims; }
  at(each) { return this.spaces[this.space].at(each); }

  prepare() {
    const count = this.dims.length;
    this.values = this.dims.map((name, k) => [...new Set(this.items.map((each) => this.at(each)[k]))].sort((a, b) => a - b));
    const ranks = this.space === "index" ? this.ranks : 0;
    const copies = d3.range(ranks).reduce((product, k) => product * this.values[k].length, 1);
    this.facetDims = copies <= MOST_FACETS ? d3.range(ranks) : [];
    const free = d3.range(count).filter((k) => !this.facetDims.includes(k));
    const long = free.filter((k) => this.values[k].length > 1), kept = long.length >= 2 ? long.slice(-2) : free.slice(-2);
    this.x = kept.length ? kept[kept.length - 1] : null;
    this.y = kept.length > 1 ? kept[0] : null;
    this.slices = {};
    this.controls();
    this.draw();
  }

  controls() {
    const box = this.choices.html("");
    const select = (label, options, value, change) => {
      const item = make(box, "label", "soft", label + " ");
      const node = item.append("select").on("change", (event) => change(event.target.value));
      options.forEach(([name, text]) => node.append("option").attr("value", name).property("selected", String(name) === String(value)).text(text));
      return node;
    };
    if (Object.keys(this.spaces).length > 1) select("axes:", [["values", "values"], ["loops", "loops"]], this.space, (name) => { this.space = name; this.chosen = {}; this.prepare(); update(); });
    const free = d3.range(this.dims.length).filter((k) => !this.facetDims.includes(k));
    if (free.length > 2) for (const axis of ["x", "y"]) select(axis === "x" ? "to the right:" : "downwards:", free.map((k) => [k, this.dims[k]]), this[axis], (k) => {
      const other = axis === "x" ? "y" : "x";
      if (+k === this[other]) this[other] = this[axis];
      this[axis] = +k; this.slices = {}; this.controls(); this.draw(); update();
    });
    this.sliders = {};
    for (const k of free) {
      if (k === this.x || k === this.y || this.values[k].length < 2) continue;
      if (!(k in this.slices)) this.slices[k] = this.values[k][this.values[k].length - 1];
      this.sliders[k] = select(this.dims[k] + ":", [["follow", `${this.slices[k]} (now)`], ...this.values[k].map((v) => [v, v])], k in this.chosen ? this.chosen[k] : "follow", (value) => {
        if (value === "follow") delete this.chosen[k]; else { this.chosen[k] = +value; this.slices[k] = +value; }
        this.draw(); update();
      });
    }
  }

  /* Move the slices to what runs now, unless they were chosen by hand. */
  follow(active, now) {
    const mine = active.find((each) => this.isArray ? this.touched(each) : this.items.includes(each)) || (this.isArray ? null : this.items.filter((each) => this.side.when(each) <= now).at(-1));
    if (!mine || !Object.keys(this.slices).length) return;
    const at = this.isArray ? this.touched(mine) : this.at(mine);
    let moved = false;
    for (const k of Object.keys(this.slices)) if (!(k in this.chosen) && this.slices[k] !== at[k]) { this.slices[k] = at[k]; moved = true; }
    if (!moved) return;
    for (const [k, node] of Object.entries(this.sliders)) node.select("option").text(`${this.slices[k]} (now)`);
    this.draw();
  }

  touched(each) {
    const number = this.side.scene.arrays.indexOf(this.array);
    if (this.side.scene.statements[each.statement].array === number && each.element) return each.element;
    const read = each.reads.find((one) => one.array === number);
    return read && read.element;
  }

  draw() {
    this.facets.html("");
    const shown = this.items.filter((each) => Object.entries(this.slices).every(([k, value]) => this.at(each)[k] === value));
    const [x0, x1] = this.x === null ? [0, 0] : range(this.values[this.x]), [y0, y1] = this.y === null ? [0, 0] : range(this.values[this.y]);
    const columns = x1 - x0 + 1, rows = y1 - y0 + 1, groups = this.facetDims.length ? d3.groups(shown, (each) => this.facetDims.map((k) => this.at(each)[k]).join()) : [["", shown]];
    const room = data.sides.length > 1 ? 420 : groups.length > 1 ? 300 : 520;
    const size = Math.max(4, Math.min(26, Math.floor(room / columns), Math.floor(460 / rows)));
    groups.sort((a, b) => d3.ascending(a[0], b[0]));
    for (const [name, items] of groups) this.facet(name, items, {x0, y0, columns, rows, size});
    this.cells = this.facets.selectAll("rect." + this.kind);
  }

  facet(name, items, {x0, y0, columns, rows, size}) {
    const box = make(this.facets, "div", "facet");
    if (name !== "") make(box, "div", "soft", this.facetDims.map((k, i) => `${this.dims[k]} ${name.split(",")[i]}`).join(", "));
    const digits = String(y0 + rows - 1).length, named = (axis) => axis === null ? 0 : this.dims[axis].length;
    const left = this.y === null ? 8 : 16 + 7.5 * Math.max(digits, named(this.y) + 1), top = this.x === null ? 8 : 38;
    const width = Math.max(left + columns * size + 14, left + 8 + 8 * named(this.x)), height = top + rows * size + 8;
    const holder = make(box, "div").style("position", "relative");
    const svg = make(holder, "svg", "grid").attr("width", width).attr("height", height);
    const labels = make(holder, "svg", "labels").attr("width", width).attr("height", height);
    const cells = d3.groups(items, (each) => this.column(each) + "," + this.row(each)).map(([, group]) => group);
    const gap = size < 8 ? 0.5 : 2, inset = (whole) => Math.max(1, whole - gap);
    const placed = cells.flatMap((group) => {
      const across = Math.ceil(Math.sqrt(group.length)), down = Math.ceil(group.length / across);
      return group.map((each, k) => ({each, x: left + (this.column(each) - x0 + (k % across) / across) * size, y: top + (this.row(each) - y0 + Math.floor(k / across) / down) * size, w: inset(size / across), h: inset(size / down)}));
    });
    const rects = svg.selectAll("rect").data(placed).join("rect").attr("class", this.kind).attr("x", (p) => p.x + gap / 2).attr("y", (p) => p.y + gap / 2).attr("width", (p) => p.w).attr("height", (p) => p.h).attr("rx", Math.min(3, size / 6)).datum((p) => p.each);
    this.style(rects);
    this.listen(rects);
    if (this.kind === "instance") svg.append("path").attr("class", "tile").attr("d", this.outlines(cells, left, top, x0, y0, size));
    this.label(labels, left, top, x0, y0, columns, rows, size);
  }

  column(each) { return this.x === null ? 0 : this.at(each)[this.x]; }
  row(each) { return this.y === null ? 0 : this.at(each)[this.y]; }

  listen(rects) {
    const side = this.side;
    rects.on("pointermove", (event, each) => {
      if (this.kind === "instance") { point(side, each); tip(event, side.words(each)); } else tip(event, side.elementWords(each));
    }).on("pointerleave", () => { untip(); if (!state.pinned) point(side, null); })
      .on("click", (event, each) => { if (this.kind === "instance") { state.pinned = false; point(side, each); state.pinned = true; event.stopPropagation(); } });
  }

  /* The lines between neighbouring cells of different tiles. */
  outlines(cells, left, top, x0, y0, size) {
    const tile = new Map(), lines = [];
    for (const group of cells) tile.set(this.column(group[0]) + "," + this.row(group[0]), [...new Set(group.map((each) => each.tile))].sort().join("+"));
    if (![...tile.values()].some((name) => name)) return "";
    for (const [place, name] of tile) {
      const [c, r] = place.split(",").map(Number), x = left + (c - x0) * size, y = top + (r - y0) * size, other = (dc, dr) => tile.get((c + dc) + "," + (r + dr));
      if (other(1, 0) !== name) lines.push(`M ${x + size} ${y} v ${size}`);
      if (other(0, 1) !== name) lines.push(`M ${x} ${y + size} h ${size}`);
      if (other(-1, 0) === undefined) lines.push(`M ${x} ${y} v ${size}`);
      if (other(0, -1) === undefined) lines.push(`M ${x} ${y} h ${size}`);
    }
    return lines.join(" ");
  }

  label(svg, left, top, x0, y0, columns, rows, size) {
    const nice = (gap) => [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128].find((step) => step * size >= gap) || 256;
    const across = svg.append("g"), down = svg.append("g");
    const text = (css, x, y, anchor, words, group) => group.append("text").attr("class", css + " label").attr("x", x).attr("y", y).attr("text-anchor", anchor).text(words);
    if (this.x !== null) {
      const digits = Math.max(String(x0).length, String(x0 + columns - 1).length), step = nice(10.5 + 7.6 * digits);
      text("axis", left, 12, "start", this.dims[this.x] + " →", across);
      for (let k = 0; k < columns; k += step) text("tick", left + (k + 0.5) * size, 31, "middle", x0 + k, across);
    }
    if (this.y !== null) {
      text("axis", left - 7, 31, "end", this.dims[this.y] + "↓", down);
      for (let k = 0; k < rows; k += nice(24)) text("tick", left - 7, top + (k + 0.5) * size + 4, "end", y0 + k, down);
    }
  }
}
