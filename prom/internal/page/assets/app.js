// The page: which view is shown, and what all views share.

import { blocksView } from './blocks.js';
import { cardinalityView } from './cardinality.js';
import { byId } from './dom.js';
import { healthView } from './health.js';
import { QueryView } from './query.js';
import { showSource } from './source.js';
import { Store, writeState } from './state.js';
import { startTheme } from './theme.js';
import { Clock } from './time.js';

const titles = { graph: 'Query', table: 'Query', cardinality: 'Cardinality', blocks: 'Blocks', health: 'Health' };

const store = new Store();
const query = new QueryView(store, new Clock(store.state.utc));
const sections = {
  query: [byId('query-view'), query],
  cardinality: [byId('cardinality-view'), cardinalityView(byId('cardinality-view'), store)],
  blocks: [byId('blocks-view'), blocksView(byId('blocks-view'))],
  health: [byId('health-view'), healthView(byId('health-view'))],
};

const sectionOf = (view) => (view === 'graph' || view === 'table' ? 'query' : view);

function show(state, before = null) {
  const clock = new Clock(state.utc);
  const wanted = sectionOf(state.view);
  for (const [name, [section, view]] of Object.entries(sections)) {
    section.hidden = name !== wanted;
    if (name !== wanted) view.stop();
  }
  for (const link of byId('nav').children) {
    const here = sectionOf(link.dataset.view) === wanted;
    link.toggleAttribute('aria-current', here);
    if (here) link.setAttribute('aria-current', 'page');
    link.href = writeState({ ...state, view: link.dataset.view });
  }
  byId('zone').textContent = state.utc ? 'UTC' : `Local time, ${clock.ahead()}`;
  byId('zone').setAttribute('aria-label', `Times are in ${clock.zone()}. Change between local time and UTC.`);
  document.title = `${state.query && wanted === 'query' ? state.query : titles[state.view]} · tsdb`;
  sections[wanted][1].show(clock);
  if (before === null || before.utc !== state.utc) showSource(clock).then((from) => { if (store.since(from)) query.refit(); });
}

byId('zone').addEventListener('click', () => store.set({ utc: !store.state.utc }, false));
byId('nav').addEventListener('click', (e) => {
  const link = e.target.closest('a');
  if (!link || e.ctrlKey || e.metaKey || e.shiftKey) return;
  e.preventDefault();
  store.set({ view: link.dataset.view });
});
byId('brand').addEventListener('click', (e) => {
  e.preventDefault();
  store.set({ query: '', view: 'graph' });
});
byId('skip').addEventListener('click', (e) => {
  e.preventDefault();
  byId('main').focus();
});
startTheme(byId('theme'), () => query.redraw());
store.onChange(show);
show(store.state);
if (sectionOf(store.state.view) === 'query' && !store.state.query && !matchMedia('(pointer: coarse)').matches) byId('query').focus();
