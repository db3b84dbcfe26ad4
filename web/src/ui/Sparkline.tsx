// A small line of scores, with the score that ends the loop as dots above it.
import { sparkline } from "./sparkline";
import "./sparkline.css";

const WIDTH = 84;
const HEIGHT = 22;

export function Sparkline({
  values,
  threshold = null,
  label,
}: {
  values: readonly number[];
  threshold?: number | null;
  /** What screen readers say instead of the picture. */
  label: string;
}) {
  const shape = sparkline(values, threshold, WIDTH, HEIGHT);
  return (
    <svg className="spark" width={WIDTH} height={HEIGHT} viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={label}>
      {shape.threshold !== null && (
        <path className="spark-threshold" d={`M2 ${shape.threshold}H${WIDTH - 2}`} />
      )}
      {shape.points.length > 1 && (
        <polyline className="spark-line" points={shape.points.map(([x, y]) => `${x},${y}`).join(" ")} />
      )}
      {shape.last !== null && <circle className="spark-last" cx={shape.last[0]} cy={shape.last[1]} r="2.5" />}
    </svg>
  );
}
