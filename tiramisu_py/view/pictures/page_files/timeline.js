/* ---- a row for each executor, and what goes between them ---- */

Object.assign(Side.prototype, {
  timeline() {
    const scene = this.scene, words = (who, level) => who.split(", ").slice(0, level).join(", ");
    const plain = (end) => end.replace(/, the host$/, "");
    let names = scene.executors, level = 9;
    const distinct = () => [...new Set(scene.executors.map((who) => words(who, level)))];
    for (level = 4; level > 0 && distinct().length > MOST_LANES; level--);
    names = level ? distinct() : ["all executors"];
    const ends = [...new Set(scene.messages.flatMap((message) => [message.sender, message.receiver]))].map(plain).filter((end) => !names.some((name) => name.startsWith(end)));
    const lanes = [...names, ...ends];
    const lane = (each) => lanes.indexOf(level ? words(scene.executors[each.who], level) : "all executors");
    const left = 16 + 6.8 * d3.max(lanes, (name) => name.length), wide = Math.max(1, Math.min(20, (data.sides.length > 1 ? 360 : 860) / Math.max(1, this.steps)));
    const high = scene.messages.length ? 34 : 24, height = 26 + lanes.length * high + 26, width = left + this.steps * wide + 60;
    const panel = make(this.drawing, "div", "panel time");
    const header = make(panel, "header");
    make(header, "h3", "", "Time: what runs at each step");
    make(header, "div", "soft", "one row for each executor, in the colours of the statements" + (scene.messages.length ? "; arrows are messages, from the send to where they have arrived, and copies" : ""));
    const svg = make(make(panel, "div", "timeline"), "svg").attr("width", width).attr("height", height).attr("role", "img");
    const x = (step) => left + step * wide, y = (k) => 22 + k * high;
    svg.selectAll("line.lane").data(lanes).join("line").attr("class", "lane").attr("x1", left).attr("x2", x(this.steps)).attr("y1", (d, k) => y(k) + high / 2).attr("y2", (d, k) => y(k) + high / 2);
    svg.selectAll("text.lane").data(lanes).join("text").attr("class", "lane label").attr("x", left - 8).attr("text-anchor", "end").attr("y", (d, k) => y(k) + high / 2 + 4).text((d) => d);
    const cells = d3.rollups(scene.instances, (group) => group, (each) => lane(each) * 1e7 + each.step).map(([, group]) => group);
    svg.selectAll("rect.cell").data(cells).join("rect").attr("class", "cell").attr("x", (group) => x(group[0].step)).attr("y", (group) => y(lane(group[0])) + high / 2 - 8).attr("width", Math.max(0.8, wide - 0.6)).attr("height", 16)
      .attr("fill", (group) => ofStatement(group[0].statement)).on("pointermove", (event, group) => tip(event, [`step ${group[0].step + 1}: ${many(group.length, "instance")} of ${[...new Set(group.map((each) => scene.statements[each.statement].name))].join(", ")}`])).on("pointerleave", untip)
      .on("click", (event, group) => { state.order = "steps"; d3.select("#order").property("value", "steps"); state.at = group[0].step; update(); });
    this.sends(svg, lanes, lane, x, y, wide, high);
    const gap = Math.max(1, Math.ceil(46 / wide / 5) * 5), ticks = this.steps > 12 ? d3.range(0, this.steps, gap) : d3.range(0, this.steps, Math.ceil(30 / wide));
    svg.selectAll("text.tick").data(ticks).join("text").attr("class", "tick label").attr("text-anchor", "middle").attr("x", (step) => x(step) + wide / 2).attr("y", height - 12).text((step) => step + 1);
    svg.append("text").attr("class", "axis label").attr("x", left - 8).attr("y", height - 12).attr("text-anchor", "end").text("step");
    this.cursor = svg.append("line").attr("class", "now").attr("y1", 14).attr("y2", height - 26);
    this.cursorAt = (step) => this.cursor.attr("x1", x(step) + wide / 2).attr("x2", x(step) + wide / 2);
    const keys = make(panel, "div", "legend");
    scene.statements.forEach((each, k) => { if (this.of[k].length) { const item = make(keys, "span", "key"); make(item, "span", "swatch").style("background", ofStatement(k)); make(item, "span", "", each.name); } });
  },

  sends(svg, lanes, lane, x, y, wide, high) {
    const drawn = this.scene.messages.filter((message) => message.pairs.length).map((message) => ({message, from: message.sent, to: message.arrived}));
    const find = (end) => lanes.findIndex((name) => name.startsWith(end.replace(/, the host$/, "")));
    svg.selectAll("path.sent").data(drawn).join("path").attr("class", "arrow message sent").attr("marker-end", "url(#head-message)")
      .attr("d", ({message, from, to}) => {
        const a = [x(from) + wide / 2, y(find(message.sender)) + high / 2], b = [x(to) + wide / 2 + (from === to ? wide / 3 : 0), y(find(message.receiver)) + high / 2];
        const down = Math.sign(b[1] - a[1]) || 1;
        return `M ${a[0]} ${a[1] + 8 * down} L ${b[0]} ${b[1] - 9 * down}`;
      });
  },

  messages() {
    const scene = this.scene;
    if (!scene.messages.length) return;
    const panel = make(this.drawing, "div", "panel sent").style("margin-top", "16px");
    make(make(panel, "header"), "h3", "", "Messages and copies");
    const table = make(panel, "table", "messages");
    const head = make(table, "tr");
    ["name", "from", "to", "messages", "elements", "bytes"].forEach((word) => make(head, "th", "", word));
    const grouped = d3.groups(scene.messages, (m) => m.name, (m) => m.sender, (m) => m.receiver);
    for (const [name, senders] of grouped) for (const [sender, receivers] of senders) for (const [receiver, all] of receivers) {
      const row = make(table, "tr", "message");
      [name, sender, receiver, all.length, d3.sum(all, (m) => m.pairs.length), d3.sum(all, (m) => m.bytes)].forEach((value) => make(row, "td", "", value));
    }
  },
});
