// Each role contains the ones before it.
export const ROLES = ["viewer", "operator", "author", "admin"] as const;
export type Role = (typeof ROLES)[number];

export function may(role: Role | undefined, needed: Role): boolean {
  return role !== undefined && ROLES.indexOf(role) >= ROLES.indexOf(needed);
}

/** The roles that somebody with this role may give to others. */
export function rolesUpTo(role: Role): readonly Role[] {
  return ROLES.slice(0, ROLES.indexOf(role) + 1);
}
