/** What a map has for a key; it is made where there is none. */
export function made(map, key, make) {
    let value = map.get(key);
    if (value === undefined)
        map.set(key, value = make(key));
    return value;
}
