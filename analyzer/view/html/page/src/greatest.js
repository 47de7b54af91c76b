/** The greatest of numbers, however many: as arguments of Math.max a hundred thousand would overflow the stack. */
export function greatest(numbers, least = -Infinity) {
    let most = least;
    for (const number of numbers)
        most = number > most ? number : most;
    return most;
}
