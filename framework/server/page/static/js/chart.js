// A time series by uPlot, which is loaded with the first chart.
import { dayAndTime } from './format.js';
import { colours, html, useEffect, useRef } from './ui.js';

// Series: [{label, values, tone, bars}] beside the seconds of `times`.
export function Chart({ times, series, label, height = 190, format = String }) {
  const box = useRef();
  useEffect(() => {
    let chart;
    let gone = false;
    const draw = async () => {
      const { default: UPlot } = await import('uplot');
      if (!document.querySelector('link[href$="uplot.css"]')) document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: '/static/vendor/uplot.css' }));
      if (gone) return;
      chart?.destroy();
      const palette = colours();
      const clock = (seconds) => dayAndTime(seconds * 1000);
      // Hours of a day as 05:00, midnight as its date.
      const ticks = (self, values, index, space, step) => values.map((value) => { const text = clock(value); return step >= 86400 || text.slice(11, 16) === '00:00' ? text.slice(5, 10) : text.slice(11, 16); });
      const axis = { stroke: palette.quiet, grid: { stroke: palette.line, width: 1 }, ticks: { stroke: palette.line, width: 1 }, font: '11px system-ui, sans-serif' };
      chart = new UPlot({
        width: box.current.clientWidth, height, legend: { live: true }, cursor: { y: false },
        scales: { x: { time: true, range: (self, low, high) => { const pad = Math.max(60, (high - low) / Math.max(1, times.length - 1) / 2); return [low - pad, high + pad]; } }, y: { range: (self, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [{ ...axis, values: ticks, space: 60 }, { ...axis, size: 60, values: (self, ticks) => ticks.map(format) }],
        series: [{ value: (self, value) => (value == null ? '' : clock(value).slice(0, 16)) }, ...series.map((each) => ({
          label: each.label, stroke: palette[each.tone], fill: each.bars ? `${palette[each.tone]}55` : undefined, width: 1.6, points: { show: !each.bars && times.length < 60, size: 5 },
          value: (self, value) => (value == null ? '?' : format(value)), ...(each.bars ? { paths: UPlot.paths.bars({ size: [0.6, 24] }) } : {}),
        }))],
      }, [times, ...series.map((each) => each.values)], box.current);
    };
    draw();
    const watch = new ResizeObserver(() => chart?.setSize({ width: box.current.clientWidth, height }));
    watch.observe(box.current);
    addEventListener('themechange', draw);
    return () => { gone = true; chart?.destroy(); watch.disconnect(); removeEventListener('themechange', draw); };
  }, [times, series]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${label}></div>`;
}
