// Bars by update: height = a number of the update, and each bar is a link to it.
import { html, useState } from './ui.js';
import { clock, counted, day } from './format.js';

const ROUND = [1, 2, 5, 10];

// The smallest round number that is not below the value, such as 20 for 17.
export function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return ROUND.find((each) => each * power >= value) * power;
}

// Points: [{at, value, href, text}], oldest first; dates are written where the day changes.
export function Chart({ points, label, format = String, tone }) {
  const [hovered, set] = useState(null);
  const most = roundUp(Math.max(1, ...points.map((each) => each.value ?? 0)));
  const every = Math.ceil(points.length / 12);
  const shown = hovered == null ? null : points[hovered];
  return html`<figure class="chart" aria-label=${label}><div class="chart-body"><div class="chart-scale" aria-hidden="true"><span>${format(most)}</span><span>${format(most / 2)}</span><span>0</span></div>
    <ol class="chart-bars" onMouseLeave=${() => set(null)}>${points.map((each, index) => {
    const isDay = index === 0 || day(points[index - 1].at) !== day(each.at);
    return html`<li key=${index} class=${isDay || index % every === 0 ? 'ticked' : ''} onMouseEnter=${() => set(index)}><a href=${each.href} aria-label=${each.text} onFocus=${() => set(index)} onBlur=${() => set(null)}>
      <i class=${each.value ? tone : 'none'} style=${{ height: `${each.value ? Math.max(2, (100 * each.value) / most) : 0}%` }}></i></a>${isDay || index % every === 0 ? html`<small aria-hidden="true">${isDay ? day(each.at).slice(5) : clock(each.at).slice(0, 5)}</small>` : null}</li>`;
  })}</ol></div><figcaption class="quiet">${shown ? shown.text : counted(points.length, 'update')}</figcaption></figure>`;
}
