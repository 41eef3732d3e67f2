// Light and dark: what the system says, until a person chooses.

import { recall, remember } from './dom.js';

const key = 'tsdb-theme';
const next = { system: 'light', light: 'dark', dark: 'system' };
const signs = { system: '◐', light: '○', dark: '●' };

// startTheme sets the theme and lets a button change it. changed is called when colours are others.
export function startTheme(button, changed) {
  let theme = recall(key) in next ? recall(key) : 'system';
  const show = () => {
    if (theme === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = signs[theme];
    button.ariaLabel = `Theme: ${theme}`;
    button.title = `${button.ariaLabel}. Change between light, dark, and what the system says`;
    changed();
  };
  button.addEventListener('click', () => {
    theme = next[theme];
    remember(key, theme);
    show();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
  show();
}
