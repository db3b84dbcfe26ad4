// A whole number from a small range, with a mark below each.
import type { CSSProperties } from "react";
import "./slider.css";

export function Slider({
  label,
  value,
  min,
  max,
  mark,
  onChange,
  onDone,
  valueText,
}: {
  label: string;
  /** A value beyond the range stands at its end. */
  value: number;
  min: number;
  max: number;
  /** Where a line crosses the track: the default. */
  mark?: number;
  /** While it moves. */
  onChange: (value: number) => void;
  /** When it rests: the pointer is released, or the key. */
  onDone: () => void;
  valueText?: string;
}) {
  const at = (one: number) => (Math.max(min, Math.min(max, one)) - min) / (max - min);
  const numbers = Array.from({ length: max - min + 1 }, (_, index) => min + index);
  const style = { "--slider-at": at(value), "--slider-mark": mark === undefined ? 0 : at(mark) } as CSSProperties;
  return (
    <div className="slider" style={style}>
      <div className="slider-body">
        <div className="slider-track" aria-hidden="true">
          <div className="slider-fill" />
          {mark !== undefined && <div className="slider-mark" />}
        </div>
        <input
          type="range"
          aria-label={label}
          aria-valuetext={valueText}
          min={min}
          max={max}
          step={1}
          value={Math.max(min, Math.min(max, value))}
          onChange={(event) => onChange(Number(event.target.value))}
          onPointerUp={onDone}
          onKeyUp={onDone}
          onBlur={onDone}
        />
      </div>
      <div className="slider-numbers" aria-hidden="true">
        {numbers.map((one) => (
          <span key={one} style={{ left: `${at(one) * 100}%` }}>
            {one}
          </span>
        ))}
      </div>
    </div>
  );
}
