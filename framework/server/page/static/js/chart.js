// A time series by uPlot, which is loaded with the first chart.
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
      const axis = { stroke: palette.quiet, grid: { stroke: palette.line, width: 1 }, ticks: { stroke: palette.line, width: 1 }, font: '11px system-ui, sans-serif' };
      chart = new UPlot({
        width: box.current.clientWidth, height, legend: { live: true }, cursor: { y: false },
        scales: { x: { time: true }, y: { range: (self, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [axis, { ...axis, size: 60, values: (self, ticks) => ticks.map(format) }],
        series: [{ value: (self, value) => (value == null ? '' : new Date(value * 1000).toISOString().slice(0, 16).replace('T', ' ')) }, ...series.map((each) => ({
          label: each.label, stroke: palette[each.tone], fill: each.bars ? `${palette[each.tone]}55` : undefined, width: 1.6, points: { show: times.length < 60, size: 5 },
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
