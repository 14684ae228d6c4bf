// Scrolls the page by half a window per frame, from the top to the end or for at most 1,500 frames. Calls `done` with
// the number of frames, the longest frame, the tasks of over 50 ms since the page began to load, and whether the end
// was reached; times are in milliseconds.
(done) => {
  const frames = [], tasks = [];
  const keep = (list) => tasks.push(...list.getEntries().map((entry) => Math.round(entry.duration)));
  new PerformanceObserver(keep).observe({type: 'longtask', buffered: true});
  const page = document.scrollingElement;
  const isAtEnd = () => scrollY >= page.scrollHeight - innerHeight - 1;
  let before = null;
  const step = (now) => {
    if (before !== null) frames.push(now - before);
    before = now;
    if (frames.length > 0 && (isAtEnd() || frames.length >= 1500)) {
      setTimeout(() => done({frames: frames.length, longest: Math.max(...frames), tasks, isAtEnd: isAtEnd()}), 200);
    } else {
      scrollBy({top: innerHeight / 2, behavior: 'instant'});
      requestAnimationFrame(step);
    }
  };
  scrollTo(0, 0);
  requestAnimationFrame(step);
}
