// In the browser, for docs/site/check.py: what a reader could see is wrong with the pages in the frames, at each width.
widths => {
    const frames = [...document.querySelectorAll('iframe')];
    return widths.map(width => {
        for (const frame of frames) frame.width = width;
        return frames.map(frame => seen(frame.contentDocument));
    });

    function seen(page) {
        const formulas = [...page.querySelectorAll('math')], pictures = [...page.querySelectorAll('article img')];
        const wrong = [...stickingOut(page), ...formulas.flatMap(wrongFormula), ...pictures.flatMap(wrongPicture)];
        return {wrong, formulas: formulas.length, pictures: pictures.length};
    }

    // Out of the window, of a column, or of an element that hides what is beyond its edge.
    function stickingOut(page) {
        const root = page.documentElement, over = root.scrollWidth - root.clientWidth;
        const elements = blocks(page);
        const last = over > 0 && elements.findLast(element => box(element).right > root.clientWidth + 1);
        const wrong = over > 0 ? [`${over} pixels wider than the window: ${last ? named(last) : ''}`] : [];
        for (const element of elements) {
            const {left, right} = box(element);
            if (left < -1 && right > 1) wrong.push(`cut at the left edge of the window: ${named(element)}`);
            const across = element.scrollWidth - element.clientWidth, down = element.scrollHeight - element.clientHeight;
            if (across <= 1 && down <= 1) continue;
            const {overflowX, overflowY} = getComputedStyle(element);
            if (across > 1 && hides(overflowX)) wrong.push(`${across} pixels cut at the right: ${named(element)}`);
            if (down > 1 && hides(overflowY)) wrong.push(`${down} pixels cut at the bottom: ${named(element)}`);
            if (across > 1 && overflowX === 'visible' && isColumn(element)) {
                wrong.push(`${across} pixels wider than its column: ${named(element)}`);
            }
        }
        return wrong;
    }

    // What is neither inline nor for screen readers alone. The many parts of code and of formulas stay unasked.
    function blocks(page) {
        const isPart = node => node.parentNode.nodeName === 'PRE' || node.parentNode.nodeName === 'math';
        const asked = node => isPart(node) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT;
        const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_ELEMENT, asked), found = [];
        while (walker.nextNode()) if (walker.currentNode.clientWidth > 1) found.push(walker.currentNode);
        return found;
    }

    function wrongFormula(formula) {
        if (formula.querySelector('merror')) return [`a formula is wrong: ${formula.textContent}`];
        return empty(formula) ? [`a formula without size: ${formula.textContent.slice(0, 80)}`] : [];
    }

    function wrongPicture(picture) {
        const missing = !picture.complete || picture.naturalWidth === 0 || empty(picture);
        const silent = !picture.alt.includes(' ');
        return [
            ...(missing ? [`a picture is missing: ${picture.src}`] : []),
            ...(silent ? [`no words instead of a picture, for those who cannot see it: ${picture.src}`] : []),
        ];
    }

    function box(element) { return element.getBoundingClientRect(); }
    function empty(element) { return box(element).width === 0 || box(element).height === 0; }
    function hides(overflow) { return overflow === 'hidden' || overflow === 'clip'; }
    function isColumn(element) {
        return ['flex', 'grid', 'table-row'].includes(getComputedStyle(element.parentElement).display);
    }
    function named(element) { return element.outerHTML.replace(/\s+/g, ' ').slice(0, 120); }
}
