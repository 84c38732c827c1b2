'use strict';
// Adds what needs a script: other points in time, tooltips, sorting, folding, themes.
// Everything else is in the HTML. Text from the recording is only ever set as textContent.
(() => {
  const root = document.documentElement;
  root.classList.add('scripted');
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const svgNames = document.querySelector('svg').namespaceURI;
  const make = (tag, attributes = {}, ...children) => {
    const isSvg = tag === 'svg' || tag === 'rect';
    const element = isSvg ? document.createElementNS(svgNames, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };
  const count = n => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
  // One decimal. Ties go to the even digit, as in C++, so that equal numbers have equal texts.
  const tenths = (value, unit) => {
    const [scaled, divisor] = [BigInt(Math.abs(value)) * 10n, BigInt(unit)];
    let digit = scaled / divisor;
    const twice = 2n * (scaled % divisor);
    if (twice > divisor || (twice === divisor && digit % 2n === 1n)) ++digit;
    return (value < 0 ? '-' : '') + String(digit / 10n) + '.' + String(digit % 10n);
  };
  const bytesText = bytes => {
    const units = ['KiB', 'MiB', 'GiB', 'TiB'];
    if (Math.abs(bytes) < 1024) return bytes + ' B';
    let unit = 0;
    // 1023.95 would round to 1024.0, which is 1.0 of the next unit.
    while (unit < 3 && Math.abs(bytes) >= 1023.95 * 1024 ** (unit + 1)) ++unit;
    return tenths(bytes, 1024 ** (unit + 1)) + ' ' + units[unit];
  };
  const durationText = ns => {
    const size = Math.abs(ns);
    if (size < 1e3) return ns + ' ns';
    if (size < 1e6) return tenths(ns, 1e3) + ' us';
    if (size < 1e9) return tenths(ns, 1e6) + ' ms';
    return tenths(ns, 1e9) + ' s';
  };
  const percentText = (part, whole) => (whole > 0 ? tenths(part * 100, whole) : '0.0') + '%';

  // The theme is that of the system until the reader chooses one.
  const theme = document.querySelector('.theme');
  if (theme) {
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const now = () => root.dataset.theme || (dark.matches ? 'dark' : 'light');
    const show = () => { theme.textContent = now() === 'dark' ? 'Light' : 'Dark'; };
    theme.hidden = false;
    theme.addEventListener('click', () => { root.dataset.theme = now() === 'dark' ? 'light' : 'dark'; show(); });
    dark.addEventListener('change', show);
    show();
  }

  // Long tables show their first rows.
  const kRows = 10;
  const fold = table => {
    const rows = all('tbody tr', table);
    rows.forEach((row, i) => row.classList.toggle('more', i >= kRows && !row.classList.contains('rest')));
    const hidden = rows.filter(row => row.classList.contains('more')).length;
    let button = table.parentElement.querySelector('.unfold');
    if (!button && hidden > 1) {
      button = make('button', { class: 'unfold', type: 'button' });
      button.addEventListener('click', () => { table.classList.toggle('folded'); fold(table); });
      table.classList.add('folded');
      table.after(button);
    }
    if (!button) { table.classList.remove('folded'); return; }
    button.hidden = hidden < 2;
    if (hidden < 2) table.classList.remove('folded');
    button.textContent = table.classList.contains('folded') ? count(hidden) + ' more rows' : 'Fewer rows';
    button.setAttribute('aria-expanded', String(!table.classList.contains('folded')));
  };

  // A click on a header sorts by its column; the row for the rest stays last.
  const sortable = table => {
    all('thead th', table).forEach(head => {
      if (!head.dataset.sort) return;
      const column = head.cellIndex;
      const button = make('button', { type: 'button' }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        const first = head.dataset.sort === 'text' ? 'ascending' : 'descending';
        const order = head.getAttribute('aria-sort') === first ? (first === 'ascending' ? 'descending' : 'ascending') : first;
        all('thead th', table).forEach(other => other.removeAttribute('aria-sort'));
        head.setAttribute('aria-sort', order);
        const sign = order === 'ascending' ? 1 : -1;
        const key = row => {
          const cell = row.children[column];
          return head.dataset.sort === 'text' ? cell.textContent : Number(cell.dataset.value ?? row.dataset.bytes);
        };
        const body = table.tBodies[0];
        const rows = all('tr', body);
        const rest = rows.filter(row => row.classList.contains('rest'));
        const others = rows.filter(row => !row.classList.contains('rest'));
        others.sort((a, b) => {
          const x = key(a);
          const y = key(b);
          return sign * (typeof x === 'string' ? x.localeCompare(y, 'en', { numeric: true }) : x - y);
        });
        body.append(...others, ...rest);
        fold(table);
      });
    });
  };
  all('table[data-fold]').forEach(fold);
  all('table').forEach(sortable);

  // Tables that are wider than their box scroll, which must also work from the keyboard.
  const widths = new ResizeObserver(entries => {
    for (const { target: box } of entries) {
      if (box.scrollWidth <= box.clientWidth) {
        for (const name of ['tabindex', 'role', 'aria-label']) box.removeAttribute(name);
        continue;
      }
      const title = box.closest('.panel, section')?.querySelector('h3, h2, summary');
      box.setAttribute('tabindex', '0');
      box.setAttribute('role', 'group');
      box.setAttribute('aria-label', (title ? title.textContent : 'A wide') + ' table');
    }
  });
  all('.scroll').forEach(box => widths.observe(box));

  // Copies text for a message, and tables with exact bytes for a spreadsheet.
  const copy = async text => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {  // denied in a frame, or by the browser
      const area = make('textarea', { readonly: '', 'aria-hidden': 'true' });
      area.value = text;
      document.body.append(area);
      area.select();
      const isDone = document.execCommand('copy');
      area.remove();
      return isDone;
    }
  };
  const copyButton = (label, textOf) => {
    const button = make('button', { class: 'copy', type: 'button', 'aria-label': label }, 'Copy');
    button.addEventListener('click', async () => {
      button.textContent = await copy(textOf()) ? 'Copied' : 'Not allowed here';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    });
    return button;
  };
  const cellText = cell => cell.dataset.exact ?? cell.textContent.trim();
  const tableText = table => all('tr', table)
    .map(row => [...row.cells].filter(cell => !cell.classList.contains('b')).map(cellText).join('\t'))
    .join('\n');
  for (const finding of all('[data-copy-finding]')) {
    const lines = () => all('h1, summary [data-finding], .evidence li, .next, .or', finding).map(each => each.textContent.trim());
    finding.append(copyButton('Copy the finding', () => lines().join('\n')));
  }
  for (const table of all('table[data-table]')) {
    const head = table.closest('.panel')?.querySelector('.head');
    if (head) head.append(copyButton('Copy the table', () => tableText(table)));
  }

  // Points in time.
  const decode = async text => {
    const packed = Uint8Array.from(atob(text.trim()), letter => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate'));
    return JSON.parse(await new Response(stream).text());
  };
  const undo = deltas => { let sum = 0; return deltas.map(delta => (sum += delta)); };

  const breakable = text => {
    const parts = [];
    let begin = 0;
    let since = 0;  // the last break opportunity
    for (let at = 0; at + 1 < text.length; ++at) {
      if (text[at] === ' ') since = at + 1;
      const size = at + 1 - since;
      const isLong = size >= 24 && /^[ -~]{2}$/.test(text.slice(at, at + 2));
      if (text[at + 1] === ' ' || !(isLong || (size >= 6 && '._/(),='.includes(text[at])))) continue;
      parts.push(text.slice(begin, at + 1), make('wbr'));
      begin = since = at + 1;
    }
    return [...parts, text.slice(begin)];
  };
  const place = name => {
    const parts = /^(.*[0-9]) \((.*)\)$/s.exec(name);
    if (!parts) return breakable(name);
    return [make('span', { class: 'place' }, ...breakable(parts[1])), make('span', { class: 'function' }, ...breakable(parts[2]))];
  };
  const shareBar = (share, paint) => {
    const svg = make('svg', { class: 'bar', viewBox: '0 0 100 7', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    svg.append(make('rect', { width: String(Math.max(0.8, 100 * share)), height: '7', class: 'p-' + paint }));
    return svg;
  };
  const swatch = paint => {
    const svg = make('svg', { class: 'sw', viewBox: '0 0 10 10', 'aria-hidden': 'true' });
    svg.append(make('rect', { width: '10', height: '10', class: 'p-' + paint }));
    return svg;
  };

  const setUp = async article => {
    const island = article.querySelector('script[data-points]');
    if (!island || typeof DecompressionStream === 'undefined') return;
    const data = await decode(island.textContent);
    for (const name of ['event', 'time', 'live', 'reserved', 'unused', 'column']) if (data[name]) data[name] = undo(data[name]);
    for (const table of data.tables) {
      table.bytes = table.bytes.map(undo);
      table.counts = table.counts.map(undo);
    }
    for (const part of data.inside) part.bytes = undo(part.bytes);
    const caption = article.querySelector('.point');
    const opened = new Set();  // tables whose details the script has opened
    const initial = [...caption.childNodes].map(node => node.cloneNode(true));
    const bodies = new Map(all('table[data-table]', article).map(table => [table.dataset.table, [table, table.tBodies[0]]]));
    const places = all('[data-place]', article).map(element => [element, element.textContent]);
    const chart = article.querySelector('.chart.over-time');
    const svgs = all('svg', chart);
    const tip = make('div', { class: 'tip', hidden: '' });
    chart.append(tip);
    let chosen = data.chosen;  // at first the point of the tables

    const where = i => {
      const name = data.failures.includes(i) ? 'when it ran out of memory, ' : i === data.peak ? 'at its peak, ' : '';
      if (data.event[i] < 0) return name + 'before the first event';
      const parts = [name + 'event ' + count(data.event[i])];
      if (data.time && data.time[i] !== null) parts[0] += ' (' + durationText(data.time[i]) + ')';
      if (data.step && data.step[i] !== '') parts.push(data.step[i]);
      if (data.phase && data.phase[i] !== '') parts.push(data.phase[i]);
      return parts.join(', ');
    };
    const unusedText = i => bytesText(data.unused[i]) + ' not used again';
    const rowsAt = (table, i) => {
      const rows = table.names.map((name, k) => ({ name, number: k, paint: table.paints[k], bytes: table.bytes[k][i], count: table.counts[k][i], isRest: name === data.rest }))
        .filter(row => row.bytes > 0 || row.count > 0);
      const rest = rows.filter(row => row.isRest);
      const others = rows.filter(row => !row.isRest).sort((a, b) => b.bytes - a.bytes);
      return others.concat(rest);
    };
    // The lines inside the packages that a line calls; the page contains only the largest.
    const insideOf = (row, i) => {
      const found = data.inside.filter(part => part.of === row.number && part.bytes[i] > 0);
      if (!found.some(part => part.package)) return [];
      const parts = found.map(part => [part.name, part.bytes[i]]).sort((a, b) => b[1] - a[1]);
      const more = row.bytes - parts.reduce((sum, part) => sum + part[1], 0);
      if (more > 0) parts.push(['[other lines]', more]);
      const list = parts.map(([name, bytes]) => make('li', { 'data-inner': name, 'data-size': String(bytes) },
        make('span', { class: 'n', title: count(bytes) + ' bytes' }, bytesText(bytes)), make('span', {}, ...place(name))));
      return [make('details', { class: 'inside' }, make('summary', {}, 'By the line inside the packages that it calls'), make('ul', {}, ...list))];
    };
    const fill = i => {
      for (const table of data.tables) {
        const [element] = bodies.get(table.by) || [];
        if (!element) continue;
        const body = make('tbody');
        for (const row of rowsAt(table, i)) {
          const share = data.live[i] > 0 ? row.bytes / data.live[i] : 0;
          const key = make('th', { scope: 'row', class: 'key', 'data-exact': row.name }, swatch(row.paint));
          key.append(...(table.by === 'line' ? [...place(row.name), ...insideOf(row, i)] : breakable(table.by === 'category' ? row.name.replaceAll('_', ' ') : row.name)));
          const bytes = make('td', { class: 'n', 'data-value': String(row.bytes), 'data-exact': String(row.bytes), title: count(row.bytes) + ' bytes' }, bytesText(row.bytes));
          body.append(make('tr', { 'data-key': row.name, 'data-bytes': String(row.bytes), class: row.isRest ? 'rest' : '' },
            key, bytes, make('td', { class: 'b' }, shareBar(share, row.paint)),
            make('td', { class: 'n', 'data-value': String(row.bytes) }, percentText(row.bytes, data.live[i])),
            make('td', { class: 'n count', 'data-value': String(row.count) }, count(row.count))));
        }
        element.tBodies[0].replaceWith(body);
        const folded = element.closest('details');
        if (folded && !folded.open) { folded.open = true; opened.add(element); }
        all('thead th', element).forEach(head => head.removeAttribute('aria-sort'));
        fold(element);
      }
    };
    // The bar of all groups of the first table.
    const bar = article.querySelector('[data-composition]');
    const initialBar = bar && [...bar.childNodes];
    const compose = i => {
      if (!bar) return;
      if (i === data.chosen) { bar.replaceChildren(...initialBar); return; }
      const svg = make('svg', { viewBox: '0 0 1000 18', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
      let x = 0;
      for (const row of rowsAt(data.tables[0], i)) {
        const width = data.live[i] > 0 ? 1000 * row.bytes / data.live[i] : 0;
        svg.append(make('rect', { x: String(x), width: String(Math.max(0, width - 1)), height: '18', class: 'p-' + row.paint }));
        x += width;
      }
      bar.replaceChildren(svg);
    };
    // Where the columns of a chart are, in its own units.
    const areaOf = svg => {
      const columns = svg.querySelector('.columns');
      if (!columns) return null;
      const number = (rect, name) => Number(rect.getAttribute(name));
      const [first, last] = [columns.firstElementChild, columns.lastElementChild];
      const x = number(first, 'x');
      return { columns, x, width: number(last, 'x') + number(last, 'width') - x, y: number(first, 'y'), height: number(first, 'height') };
    };
    const mark = i => {
      for (const svg of svgs) {
        all('.chosen', svg).forEach(line => line.remove());
        if (i === data.chosen) continue;
        const area = areaOf(svg);
        if (!area) continue;
        const x = area.x + area.width * Math.min(data.column[i] / 100 / data.columns, 1);
        area.columns.before(make('rect', { class: 'chosen', x: String(x - 0.5), y: String(area.y), width: '0.1', height: String(area.height) }));
      }
    };
    const choose = i => {
      chosen = i;
      mark(i);
      for (const button of named) button.setAttribute('aria-pressed', String(button.points.includes(i)));
      const isInitial = i === data.chosen;
      all('[data-stays]', article).forEach(element => { element.hidden = isInitial; });
      compose(i);
      if (isInitial) {
        caption.replaceChildren(...initial.map(node => node.cloneNode(true)));
        for (const [element, text] of places) element.textContent = text;
        for (const [table, body] of bodies.values()) {
          table.tBodies[0].replaceWith(body);
          if (opened.delete(table)) table.closest('details').open = false;
          fold(table);
        }
        return;
      }
      const back = make('button', { type: 'button' }, 'Back');
      back.addEventListener('click', () => { choose(data.chosen); svgs.find(svg => svg.getClientRects().length)?.focus(); });
      caption.replaceChildren(make('b', { 'data-bytes': String(data.live[i]) }, bytesText(data.live[i])), make('span', {}, where(i)),
        ...(data.unused ? [make('span', { 'data-unused': String(data.unused[i]) }, unusedText(i))] : []), back);
      for (const [element] of places) element.textContent = where(i);
      fill(i);
    };
    // A button for each named point, in the line with the hint.
    const next = points => points[(points.indexOf(chosen) + 1) % points.length];
    const failures = [...data.failures].reverse();  // the last one first
    const named = [];
    const offer = (label, points) => {
      if (points.length === 0) return;
      const button = make('button', { type: 'button', 'aria-pressed': String(points.includes(chosen)) }, label);
      button.points = points;
      button.addEventListener('click', () => choose(next(points)));
      named.push(button);
    };
    offer('Peak', data.peak === null ? [] : [data.peak]);
    offer('Out of memory', failures);
    article.querySelector('.hint').after(make('span', { class: 'named' }, ...named));
    all('.hint', article).forEach(hint => { hint.hidden = false; });

    const show = (i, x, y) => {
      const rows = rowsAt(data.tables[0], i).slice(0, 6);
      tip.textContent = bytesText(data.live[i]) + ', ' + where(i) +
        (data.reserved && data.reserved[i] > 0 ? '\nreserved ' + bytesText(data.reserved[i]) : '') +
        (data.unused ? '\n' + unusedText(i) : '') + '\n' +
        rows.map(row => bytesText(row.bytes) + '  ' + row.name.slice(0, 60)).join('\n');
      tip.hidden = false;
      const box = chart.getBoundingClientRect();
      tip.style.left = Math.max(0, Math.min(x - box.left + 16, box.width - tip.offsetWidth)) + 'px';
      tip.style.top = Math.max(0, y - box.top + 18) + 'px';
    };
    // A second chart, of a span of the first: from one place on the axis to another, in columns.
    const whole = [0, data.columns];
    const kLeastColumns = 4;
    const zoomed = make('div', { class: 'zoom', role: 'group', 'aria-label': 'Span of time', hidden: '' });
    chart.after(zoomed);
    const byColumn = data.column.map((_, i) => i).sort((a, b) => data.column[a] - data.column[b]);
    const order = data.tables[0].names.map(name => (data.stack.indexOf(name) + 1) || 1e9);
    const stack = data.tables[0].names.map((_, k) => k).sort((a, b) => order[a] - order[b]);
    let span = whole;
    let hasDragged = false;  // the click that follows chooses no point
    const zoom = ([begin, end], focus) => {
      const size = Math.min(Math.max(end - begin, kLeastColumns), data.columns);
      const from = Math.max(0, Math.min(begin, data.columns - size));
      span = [from, from + size];
      const isWhole = size >= data.columns;
      zoomed.hidden = isWhole;
      all('.span', chart).forEach(each => each.remove());
      if (isWhole) {
        if (focus) svgs.find(svg => svg.getClientRects().length)?.focus();
        return;
      }
      for (const svg of svgs) {
        const area = areaOf(svg);
        if (area) area.columns.before(make('rect', { class: 'span', x: String(area.x + area.width * from / data.columns), y: String(area.y), width: String(area.width * size / data.columns), height: String(area.height) }));
      }
      const before = byColumn.filter(i => data.column[i] / 100 < from).slice(-1);
      const inside = byColumn.filter(i => data.column[i] / 100 >= from && data.column[i] / 100 < from + size);
      const shown = [...before, ...inside];
      const most = Math.max(1, ...shown.map(i => data.live[i]));
      const svg = make('svg', { viewBox: '0 0 1000 200', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
      const parts = make('svg', { class: 'columns', viewBox: '0 0 1000 200', preserveAspectRatio: 'none' });
      shown.forEach((i, at) => {
        const place = each => 1000 * (Math.max(data.column[each] / 100, from) - from) / size;
        const x = place(i);
        const width = (at + 1 < shown.length ? place(shown[at + 1]) : 1000) - x;
        let y = 200;
        for (const k of stack) {
          const height = 200 * data.tables[0].bytes[k][i] / most;
          y -= height;
          if (height > 0) svg.append(make('rect', { x: String(x), y: String(y), width: String(width + 0.3), height: String(height), class: 'p-' + data.tables[0].paints[k] }));
        }
        parts.append(make('rect', { 'data-at': String(i), x: String(x), y: '0', width: String(width), height: '200' }));
      });
      svg.append(parts);
      const button = (label, name, to) => {
        const made = make('button', { type: 'button', 'aria-label': name }, label);
        made.addEventListener('click', () => zoom(to(), true));
        return made;
      };
      const named = make('span', { class: 'named' }, button('+', 'Zoom in', () => around(0.5)), button('\u2212', 'Zoom out', () => around(2)), button('Whole run', 'Whole run', () => whole));
      const ends = make('p', { class: 'sub ends' }, make('span', {}, where(shown[0])), make('span', {}, where(shown.at(-1))));
      zoomed.replaceChildren(make('p', { class: 'sub' }, 'Up to ' + bytesText(most)), named, svg, ends);
      if (focus) [...named.children].at(0).focus();
      parts.addEventListener('mousemove', event => show(Number(event.target.dataset.at), event.clientX, event.clientY));
      parts.addEventListener('mouseleave', () => { tip.hidden = true; });
      parts.addEventListener('click', event => choose(Number(event.target.dataset.at)));
    };
    // The span around the chosen point, or around the middle if the point is outside.
    const around = factor => {
      const at = data.column[chosen] / 100;
      const middle = at >= span[0] && at <= span[1] ? at : (span[0] + span[1]) / 2;
      const half = (span[1] - span[0]) * factor / 2;
      return [middle - half, middle + half];
    };
    const onDrag = svg => {
      let begin = null;
      const placeOf = event => {
        const area = areaOf(svg);
        const box = area.columns.getBoundingClientRect();
        return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * data.columns;
      };
      const group = svg.querySelector('.columns');
      group.addEventListener('pointerdown', event => {
        hasDragged = false;
        begin = event.pointerType === 'touch' ? null : placeOf(event);
      });
      addEventListener('pointerup', event => {
        if (begin === null) return;
        const ends = [begin, placeOf(event)].sort((a, b) => a - b);
        begin = null;
        if (ends[1] - ends[0] < kLeastColumns) return;  // a click
        hasDragged = true;
        zoom(ends);
      });
    };
    for (const svg of svgs) {
      const parts = all('[data-at]', svg);
      if (parts.length === 0) continue;
      onDrag(svg);
      all('title', svg.querySelector('.columns')).forEach(title => title.remove());
      // The arrow keys visit the points of this chart, which may have few columns.
      const stops = [...new Set([...parts.map(part => Number(part.dataset.at)), data.chosen])].sort((a, b) => a - b);
      svg.setAttribute('tabindex', '0');
      svg.setAttribute('role', 'group');
      for (const group of all('.columns, .marks', svg)) {
        group.addEventListener('mousemove', event => {
          if (event.target.dataset.at) show(Number(event.target.dataset.at), event.clientX, event.clientY);
        });
        group.addEventListener('mouseleave', () => { tip.hidden = true; });
        group.addEventListener('click', event => {
          if (event.target.dataset.at && !hasDragged) choose(Number(event.target.dataset.at));
        });
      }
      const step = by => {
        const behind = stops.filter(stop => stop < chosen).length;
        const at = by < 0 ? behind + by : behind + by - (stops[behind] === chosen ? 0 : 1);
        return stops[Math.max(0, Math.min(stops.length - 1, at))];
      };
      svg.addEventListener('keydown', event => {
        const by = event.shiftKey ? Math.max(1, Math.round(stops.length / 20)) : 1;
        const targets = {
          ArrowLeft: () => step(-by), ArrowRight: () => step(by), Home: () => stops[0], End: () => stops.at(-1),
          p: () => data.peak ?? undefined, o: () => failures.length ? next(failures) : undefined, Escape: () => data.chosen,
        };
        const spans = { '+': () => around(0.5), '=': () => around(0.5), '-': () => around(2), '0': () => whole };
        if (spans[event.key] && !event.ctrlKey && !event.metaKey) {
          event.preventDefault();
          zoom(spans[event.key]());
        }
        const target = targets[event.key.length === 1 ? event.key.toLowerCase() : event.key]?.();
        if (target === undefined) return;
        event.preventDefault();
        choose(target);
      });
    }
  };
  all('article').forEach(article => { setUp(article).catch(() => {}); });
})();
