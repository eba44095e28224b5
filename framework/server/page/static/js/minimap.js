// The whole graph in a corner, while only a part of it is visible: a click or a drag moves the view.
import { html, useCanvas, useRef } from './ui.js';
import { mark } from './states.js';

const MOST = { width: 170, height: 190 };
const TONES = { good: 'good', bad: 'bad', warn: 'warn', run: 'run' };

export function Minimap({ layout, states, windowOf, go }) {
  const scale = Math.min(MOST.width / layout.width, MOST.height / layout.height);
  const [width, height] = [Math.max(24, layout.width * scale), Math.max(16, layout.height * scale)];
  const dragging = useRef(false);
  const canvas = useCanvas((context, across, down, palette) => {
    for (const node of layout.nodes) {
      const state = states.get(node.id);
      const tone = state?.broken ? 'bad' : TONES[mark(state?.state).tone];
      context.fillStyle = palette[tone ?? 'mute'];
      context.globalAlpha = tone === 'bad' ? 1 : 0.45;
      context.fillRect(node.x * scale, node.y * scale, Math.max(1.5, node.w * scale), Math.max(1.2, node.h * scale));
    }
    context.globalAlpha = 1;
  }, [layout, states]);
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    go((event.clientX - box.left) / scale, (event.clientY - box.top) / scale);
  };
  return html`<div class="minimap" aria-hidden="true" style=${{ width: `${width}px`, height: `${height}px` }}
      onPointerDown=${(event) => { dragging.current = true; event.currentTarget.setPointerCapture(event.pointerId); move(event); }}
      onPointerMove=${(event) => dragging.current && move(event)} onPointerUp=${() => { dragging.current = false; }}>
    <canvas ref=${canvas}></canvas><i ref=${(element) => { windowOf.current = element && { element, scale }; }}></i></div>`;
}
