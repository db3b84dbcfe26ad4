// Numbers, times and durations, in the language and the time zone of the reader.
import { create } from "zustand";
import { keep, readKept } from "../ui/kept";
import { useLanguage, type Language } from "./messages";

const ZONE_KEY = "roundel.timeZone";

/** The time zone: empty for that of the system. */
export const useTimeZone = create<{ zone: string; choose: (zone: string) => void }>((set) => ({
  zone: readKept("browser", ZONE_KEY) ?? "",
  choose: (zone) => {
    keep("browser", ZONE_KEY, zone);
    set({ zone });
  },
}));

export interface Formats {
  /** 41,268 */
  number: (value: number) => string;
  /** 0.46, with at most so many digits after the point. */
  decimal: (value: number, digits?: number) => string;
  /** $0.148; a dash if it is not known. */
  cost: (value: number | null | undefined) => string;
  /** 30 % */
  percent: (share: number) => string;
  /** 3 m 32 s, or 3 分 32 秒. What counts down has no tenths of seconds. */
  duration: (seconds: number, isWhole?: boolean) => string;
  /** 09:14:00 */
  clock: (time: Moment) => string;
  /** 09:14 today, otherwise 12 Nov */
  short: (time: Moment, now?: number) => string;
  /** 12 Nov 2026, 09:14:00 GMT+1 */
  full: (time: Moment) => string;
  /** 4 min ago */
  ago: (time: Moment, now?: number) => string;
}

export type Moment = string | number;

export function millis(time: Moment): number {
  return typeof time === "number" ? time : Date.parse(time);
}

const SPACE = " ";

const UNITS: Record<Language, { day: string; hour: string; minute: string; second: string }> = {
  en: { day: "d", hour: "h", minute: "m", second: "s" },
  zh: { day: "天", hour: "小时", minute: "分", second: "秒" },
};

/** 0.41 s, 18.2 s, 3 m 32 s, 2 h 41 m, 3 d 4 h */
function duration(language: Language, seconds: number, isWhole: boolean): string {
  if (!Number.isFinite(seconds)) return "–";
  const { day, hour, minute, second } = UNITS[language];
  const join = (a: number, x: string, b: number, y: string) =>
    `${a}${SPACE}${x}${b ? `${SPACE}${b}${SPACE}${y}` : ""}`;
  const value = Math.max(0, isWhole ? Math.floor(seconds) : seconds);
  if (isWhole && value < 60) return `${value}${SPACE}${second}`;
  if (value < 1) return `${value.toFixed(2)}${SPACE}${second}`;
  if (value < 59.95) return `${value.toFixed(1)}${SPACE}${second}`;
  const whole = Math.round(value);
  if (whole < 3600) return join(Math.floor(whole / 60), minute, whole % 60, second);
  const minutes = Math.round(whole / 60);
  if (minutes < 1440) return join(Math.floor(minutes / 60), hour, minutes % 60, minute);
  const hours = Math.round(minutes / 60);
  return join(Math.floor(hours / 24), day, hours % 24, hour);
}

/** Makes something when it is first used: formatters take milliseconds each, and most pages need few of them. */
function lazily<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}

export function formatsFor(language: Language, zone: string): Formats {
  const locale = language === "zh" ? "zh-CN" : "en-GB";
  const timeZone = zone || undefined;
  const dates = (style: Intl.DateTimeFormatOptions, of = locale) =>
    lazily(() => new Intl.DateTimeFormat(of, { ...style, timeZone }));
  const numbers = lazily(() => new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en-US"));
  const toMinute = { hour: "2-digit", minute: "2-digit", hour12: false } as const;
  const clock = dates({ ...toMinute, second: "2-digit" });
  const minute = dates(toMinute);
  const day = dates({ day: "numeric", month: "short" });
  const dayKey = dates({ dateStyle: "short" }, "en-CA");
  const full = dates({
    day: "numeric",
    month: "short",
    year: "numeric",
    ...toMinute,
    second: "2-digit",
    timeZoneName: "short",
  });
  const relative = lazily(() => new Intl.RelativeTimeFormat(locale, { numeric: "always", style: "short" }));
  const decimal = (value: number, digits = 2) =>
    Number.isInteger(value) ? numbers().format(value) : value.toFixed(digits);
  return {
    number: (value) => numbers().format(Math.round(value)),
    decimal,
    cost: (value) => {
      if (value === null || value === undefined) return "–";
      return value >= 100 || value === 0 ? `$${value.toFixed(2)}` : `$${value.toFixed(3)}`;
    },
    percent: (share) => `${Math.round(share * 100)}${SPACE}%`,
    duration: (seconds, isWhole = false) => duration(language, seconds, isWhole),
    clock: (time) => clock().format(millis(time)),
    short: (time, now = Date.now()) =>
      dayKey().format(millis(time)) === dayKey().format(now) ? minute().format(millis(time)) : day().format(millis(time)),
    full: (time) => full().format(millis(time)),
    ago: (time, now = Date.now()) => {
      const seconds = Math.max(0, (now - millis(time)) / 1000);
      if (seconds < 10) return language === "zh" ? "刚刚" : "now";
      if (seconds < 60) return relative().format(-Math.round(seconds), "second");
      if (seconds < 3600) return relative().format(-Math.round(seconds / 60), "minute");
      if (seconds < 86_400) return relative().format(-Math.round(seconds / 3600), "hour");
      return relative().format(-Math.round(seconds / 86_400), "day");
    },
  };
}

const made = new Map<string, Formats>();

export function useFormats(): Formats {
  const language = useLanguage((state) => state.language);
  const zone = useTimeZone((state) => state.zone);
  const key = `${language} ${zone}`;
  let found = made.get(key);
  if (found === undefined) {
    found = formatsFor(language, zone);
    made.set(key, found);
  }
  return found;
}
