/** What follows from sums: the sums themselves, or what a formula makes of several of them. */

const OPERATIONS = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  // as in Cube
  "/": (a, b) => (a === 0 ? 0 : b === 0 ? NaN : a / b),
  min: Math.min,
  max: Math.max,
};

/**
 * The value of a formula.
 * @param {(number | [number] | string)[]} postfix numbers, [k] for the k-th operand, and operations on what comes before them
 * @param {(k: number) => number} operand
 */
export function evaluate(postfix, operand) {
  const stack = [];
  for (const item of postfix) {
    if (typeof item === "number") stack.push(item);
    else if (typeof item !== "string") stack.push(operand(item[0]));
    else if (item === "negative") stack.push(-stack.pop());
    else {
      const b = stack.pop();
      stack.push(OPERATIONS[item](stack.pop(), b));
    }
  }
  return stack[0];
}

/**
 * Numbers that belong to nodes, locations or periods.
 *
 * What is computed from others has a column for each of these, and a value only where they have come together: columns add up,
 * values do not.
 */
export class Amounts {
  /** @param {Float64Array[]} columns one, or with a formula one for each operand */
  constructor(columns, postfix = null) {
    this.columns = columns;
    this.postfix = postfix;
    this.values = postfix ? columns[0].map((_, i) => evaluate(postfix, (k) => columns[k][i])) : columns[0];
  }

  /** The same, each column made into another one. */
  map(make) {
    return new Amounts(this.columns.map(make), this.postfix);
  }

  /** What comes together of some. */
  over(numbers) {
    return total(this.postfix, (k) => numbers.reduce((sum, i) => sum + this.columns[k][i], 0));
  }
}

/** What comes together of the nodes of a selection, with or without what is below each: [node, without]. */
export function ofSelection({ own, inclusive }, selection) {
  return total(own.postfix, (k) => selection.reduce((sum, [i, open]) => sum + (open ? own : inclusive).columns[k][i], 0));
}

const total = (postfix, column) => (postfix ? evaluate(postfix, column) : column(0));

/** The largest number, without its sign. */
export const largest = (...lists) => lists.reduce((most, list) => list.reduce((m, v) => (Math.abs(v) > m ? Math.abs(v) : m), most), 0);
