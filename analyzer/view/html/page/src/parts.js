// The tabs, in their order.

export const PARTS = [];
