"""The contrast of text as it is painted, for text of which axe-core cannot say what is behind it.

The page is painted without its text, so every pixel under a text is what is behind it: hatches, tints that
lie over each other, lines of charts, the edge in the colour of the page around a text.
"""

from __future__ import annotations

import base64
from typing import Any

from playwright.sync_api import Page

TRIES = 40
"""How often the page is scrolled to what is still out of sight."""

HIDE = """() => {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(`*, *::before, *::after {
    -webkit-text-fill-color: transparent !important; text-decoration-color: transparent !important;
    transition: none !important; animation: none !important }
    svg text { fill: transparent !important }`)
  sheet.isForContrast = true
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet]
}"""
SHOW = """() => {
  document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheet.isForContrast)
}"""

# What is known about the texts before they are hidden: their colours and the contrast that they need.
COLOURS = """(selectors) => {
  const context = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true})
  return selectors.map((selector) => {
    const element = document.querySelector(selector)
    if (element === null) return null
    const style = getComputedStyle(element)
    context.clearRect(0, 0, 1, 1)
    context.fillStyle = element instanceof SVGElement ? style.fill : style.color
    context.fillRect(0, 0, 1, 1)
    const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data
    let opacity = alpha / 255
    for (let one = element; one !== null; one = one.parentElement) opacity *= getComputedStyle(one).opacity
    const size = parseFloat(style.fontSize)
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700)
    return {selector, colour: [red, green, blue], opacity, needed: isLarge ? 3 : 4.5}
  })
}"""

# The lowest contrast of each text that is in sight; null for the others. A tenth of the pixels does not
# count: the edges of shapes are smoothed, and lines of one pixel are not what a text stands on.
MEASURE = """async ([png, texts]) => {
  const bytes = Uint8Array.from(atob(png), (one) => one.charCodeAt(0))
  const picture = await createImageBitmap(new Blob([bytes], {type: 'image/png'}))
  const canvas = new OffscreenCanvas(picture.width, picture.height)
  const context = canvas.getContext('2d', {willReadFrequently: true})
  context.drawImage(picture, 0, 0)
  const scale = picture.width / innerWidth
  const channel = (value) => (value <= 10.31475 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4)
  const light = ([red, green, blue]) =>
    0.2126 * channel(red) + 0.7152 * channel(green) + 0.0722 * channel(blue)
  const cut = (box, other) => ({
    left: Math.max(box.left, other.left), top: Math.max(box.top, other.top),
    right: Math.min(box.right, other.right), bottom: Math.min(box.bottom, other.bottom),
  })
  const boxesOf = (element) => {
    const range = document.createRange()
    const nodes = [...element.childNodes].filter((node) => node instanceof Text && node.data.trim())
    let boxes = (nodes.length ? nodes : [element]).flatMap((node) => {
      range.selectNodeContents(node)
      return [...range.getClientRects()]
    })
    // The text of a select is that of an option, which has no place of its own.
    if (element instanceof HTMLSelectElement) boxes = [element.getBoundingClientRect()]
    boxes = boxes.map((box) => cut(box, {left: 0, top: 0, right: innerWidth, bottom: innerHeight}))
    for (let one = element; one !== null; one = one.parentElement) {
      if (getComputedStyle(one).overflow === 'visible' || getComputedStyle(one).display === 'inline') continue
      const clip = one.getBoundingClientRect()
      boxes = boxes.map((box) => cut(box, clip))
    }
    return boxes.filter((box) => box.right - box.left >= 2 && box.bottom - box.top >= 4)
  }
  return texts.map(({selector, colour, opacity}) => {
    const element = document.querySelector(selector)
    if (element === null) return -1
    const ratios = []
    for (const box of boxesOf(element)) {
      const [x, y] = [Math.ceil(box.left * scale), Math.ceil(box.top * scale)]
      const [width, height] = [Math.floor(box.right * scale) - x, Math.floor(box.bottom * scale) - y]
      if (width < 1 || height < 1) continue
      const {data} = context.getImageData(x, y, width, height)
      for (let at = 0; at < data.length; at += 4) {
        const behind = [data[at], data[at + 1], data[at + 2]]
        const shown = colour.map((value, index) => value * opacity + behind[index] * (1 - opacity))
        const [one, other] = [light(shown), light(behind)]
        ratios.push((Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05))
      }
    }
    if (!ratios.length) return null
    ratios.sort((one, other) => one - other)
    return ratios[Math.floor(ratios.length / 10)]
  })
}"""


def low_contrasts(page: Page, selectors: list[str]) -> dict[str, str]:
    """What is wrong with the contrast of these texts, by selector. It scrolls the page to see them all."""
    found = page.evaluate(COLOURS, selectors)
    # A live page may have replaced some of them meanwhile.
    left: list[dict[str, Any]] = [one for one in found if one is not None]
    wrong: dict[str, str] = {}
    page.evaluate(HIDE)
    try:
        for _ in range(TRIES):
            png = base64.b64encode(page.screenshot(animations="disabled")).decode()
            hidden = []
            for one, ratio in zip(left, page.evaluate(MEASURE, [png, left]), strict=True):
                if ratio is None:
                    hidden.append(one)
                elif 0 <= ratio < one["needed"]:
                    wrong[one["selector"]] = f"contrast {ratio:.2f}, and {one['needed']} is needed"
            if not hidden:
                return wrong
            left = hidden
            scroll = "(selector) => document.querySelector(selector)?.scrollIntoView({block: 'center'})"
            page.evaluate(scroll, left[0]["selector"])
    finally:
        page.evaluate(SHOW)
    return wrong | {one["selector"]: "no place of the page shows it" for one in left}
