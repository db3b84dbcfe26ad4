import { expect, it } from "vitest";
import { may, rolesUpTo } from "./roles";
import { allZones, matchingZones } from "./zones";

it("lets each role do what the ones before it may do", () => {
  expect(may("author", "operator")).toBe(true);
  expect(may("viewer", "operator")).toBe(false);
  expect(may(undefined, "viewer")).toBe(false);
  expect(rolesUpTo("operator")).toEqual(["viewer", "operator"]);
});

it("finds time zones by the words people type", () => {
  const zones = ["UTC", "America/New_York", "Europe/Vienna", "Europe/Vilnius"];
  expect(matchingZones("new york", zones)).toEqual(["America/New_York"]);
  expect(matchingZones("europe vi", zones)).toEqual(["Europe/Vienna", "Europe/Vilnius"]);
  expect(matchingZones("", zones)).toEqual(zones);
  expect(matchingZones("nowhere", zones)).toEqual([]);
  expect(allZones()).toContain("UTC");
});
