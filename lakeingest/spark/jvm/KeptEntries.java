package io.lakeingest;

import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** What plans have in common, by a word; each entry is there as long as something else keeps it. */
final class KeptEntries<T> {
    private final Map<String, WeakReference<T>> entries = new ConcurrentHashMap<>();

    /** The entry, made where there is none. */
    synchronized T of(String word, Supplier<T> make) {
        entries.values().removeIf(each -> each.get() == null);
        T entry = existing(word);
        if (entry == null) {
            entry = make.get();
            entries.put(word, new WeakReference<>(entry));
        }
        return entry;
    }

    /** The entry; null where there is none. */
    T existing(String word) {
        WeakReference<T> entry = entries.get(word);
        return entry == null ? null : entry.get();
    }
}
