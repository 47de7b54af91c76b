#include "attribute/rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/allocate.h"
#include "base/index.h"

static const char builtin_text[] =
#include "rules.inc" /* made from rules.def at build time */
    ;

#define FILE_BYTES_LIMIT (1u << 20)
#define RULE_LIMIT 10000u
#define BLANKS " \t\r"

static const char *const innermost_names[] = {"user", "library", "none", NULL};
static const char *const kind_names[] = {"block", "segment", "driver", "pooled",
                                         NULL}; /* vt_allocation_kind */
static const char *const life_names[] = {
#define X(id, name) name,
    VT_LIVES(X)
#undef X
        NULL};
/* Conditions in the order of enum vt_pattern_kind and enum vt_condition_kind. */
static const char *const condition_names[] = {"python", "name",      "native", "object", "thread",
                                              "op",     "innermost", "trait",  "phase",  "kind",
                                              "life",   "bytes",     NULL};
static const char *const clause_names[] = {"rule", "trait", "code", NULL}; /* vt_clause_kind */
enum witness {
#define X(id, name) WITNESS_##id,
    VT_WITNESSES(X)
#undef X
        WITNESS_COUNT
};
static const char *const witness_names[] = {
#define X(id, name) name,
    VT_WITNESSES(X)
#undef X
};
static const char *const own_trait_names[] = {
#define X(id, name) name,
    VT_OWN_TRAITS(X)
#undef X
};
static const char *const code_names[] = {
#define X(id, name) name,
    VT_CODE_CLASSES(X)
#undef X
        NULL};

struct parser {
    struct vt_rules *rules;
    const char *file;
    int line;
    char *error;
    size_t error_bytes;
    const char *text, *text_end; /* the line that is read, unchanged */
    struct vt_clause *clause;    /* that is read */
    const char *clause_text, *clause_end;
    enum vt_clause_kind kind; /* of the clause */
    bool has_category;
};

__attribute__((format(printf, 2, 3))) static int fail(const struct parser *parser, const char *format, ...)
{
    char why[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    if (parser->error_bytes > 0)
        snprintf(parser->error, parser->error_bytes, "%s:%d: %s", parser->file, parser->line, why);
    return -EINVAL;
}

static int find_name(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static char *next_word(char **line)
{
    *line += strspn(*line, BLANKS);
    if (**line == '\0')
        return NULL;
    char *word = *line;
    *line += strcspn(*line, BLANKS);
    if (**line)
        *(*line)++ = '\0';
    return word;
}

/* Sets *index to that of a pattern, which is added if it is new. */
static int find_pattern(struct parser *parser, enum vt_pattern_kind kind, char *text, uint32_t *index)
{
    struct vt_patterns *patterns = &parser->rules->patterns[kind];
    char *function = kind == VT_PATTERN_PYTHON ? strrchr(text, ':') : NULL;
    if (kind == VT_PATTERN_PYTHON && !function)
        return fail(parser, "'%s': a Python pattern is FILE:FUNCTION", text);
    if (function)
        *function++ = '\0';
    for (size_t i = 0; i < patterns->count; i++) {
        if (strcmp(patterns->items[i].text, text) == 0 &&
            (!function || strcmp(patterns->items[i].function, function) == 0)) {
            *index = (uint32_t)i;
            return 0;
        }
    }
    struct vt_arena *arena = &parser->rules->arena;
    struct vt_pattern added = {
        .text = vt_arena_text(arena, text, strlen(text)),
        .function = function ? vt_arena_text(arena, function, strlen(function)) : NULL,
    };
    *index = (uint32_t)patterns->count;
    VT_APPEND(patterns->items, patterns->count, patterns->capacity, added);
    return 0;
}

static int parse_patterns(struct parser *parser, struct vt_condition *condition, char *line)
{
    struct vt_rules *rules = parser->rules;
    condition->first = (uint32_t)rules->alternative_count;
    for (char *word; (word = next_word(&line)); condition->count++) {
        uint32_t index = 0;
        int error = find_pattern(parser, (enum vt_pattern_kind)condition->kind, word, &index);
        if (error)
            return error;
        VT_APPEND(rules->alternatives, rules->alternative_count, rules->alternative_capacity, index);
    }
    return condition->count ? 0 : fail(parser, "a pattern is missing");
}

static int parse_names(struct parser *parser, struct vt_condition *condition, char *line)
{
    const struct vt_rules *rules = parser->rules;
    const char *const *names = condition->kind == VT_CONDITION_INNERMOST ? innermost_names
                               : condition->kind == VT_CONDITION_PHASE   ? vt_phase_names
                               : condition->kind == VT_CONDITION_KIND    ? kind_names
                               : condition->kind == VT_CONDITION_LIFE    ? life_names
                                                                         : rules->trait_names;
    for (char *word; (word = next_word(&line));) {
        int found = find_name(names, word);
        if (found < 0)
            return fail(parser, "'%s' is not a known %s", word, condition_names[condition->kind]);
        condition->bits |= UINT64_C(1) << found;
    }
    return condition->bits ? 0 : fail(parser, "a name is missing");
}

static int parse_bytes(struct parser *parser, struct vt_condition *condition, char *line)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", NULL};
    const char *comparison = next_word(&line), *number = next_word(&line);
    if (!comparison || !number || (strcmp(comparison, ">=") != 0 && strcmp(comparison, "<") != 0))
        return fail(parser, "'bytes' needs '>=' or '<', then a number");
    char *unit;
    errno = 0;
    unsigned long long value = strtoull(number, &unit, 10);
    int power = find_name(units, unit);
    if (unit == number || errno || power < 0 || number[0] == '-' || value > UINT64_MAX >> (10 * power))
        return fail(parser, "'%s' is not a number of bytes", number);
    condition->bits = (uint64_t)value << (10 * power);
    condition->at_least = comparison[0] == '>';
    return next_word(&line) ? fail(parser, "text after the number") : 0;
}

static int parse_condition(struct parser *parser, char *line)
{
    struct vt_rules *rules = parser->rules;
    struct vt_condition condition = {0};
    const char *word = next_word(&line);
    if (word && strcmp(word, "not") == 0) {
        condition.negated = true;
        word = next_word(&line);
    }
    int kind = word ? find_name(condition_names, word) : -1;
    if (kind < 0)
        return fail(parser, "'%s' is not a condition", word ? word : "");
    if (parser->kind == VT_CLAUSE_TRAIT && kind >= VT_FIRST_SUBJECT_CONDITION)
        return fail(parser, "'%s' is not about a stack: a trait cannot have it", word);
    if (parser->kind == VT_CLAUSE_CODE && kind >= VT_FIRST_STACK_CONDITION)
        return fail(parser, "'%s' is not about a Python function: code cannot have it", word);
    condition.kind = (uint8_t)kind;
    int error = kind < VT_PATTERN_KINDS      ? parse_patterns(parser, &condition, line)
                : kind == VT_CONDITION_BYTES ? parse_bytes(parser, &condition, line)
                                             : parse_names(parser, &condition, line);
    if (error)
        return error;
    VT_APPEND(rules->conditions, rules->condition_count, rules->condition_capacity, condition);
    parser->clause->count++;
    parser->clause->has_kind |= kind == VT_CONDITION_KIND;
    return 0;
}

static int parse_category(struct parser *parser, char *line)
{
    const char *word = next_word(&line);
    int category = find_name(vt_category_names, word);
    const char *evidence_word = next_word(&line);
    int evidence = evidence_word ? find_name(vt_evidence_names, evidence_word) : -1;
    if (category < 0 || category == VT_CATEGORY_CACHED || category == VT_CATEGORY_HOST_PINNED)
        return fail(parser, "'%s' is not a category that a rule can give", word);
    if (evidence < 0 || evidence == VT_EVIDENCE_EXACT || next_word(&line))
        return fail(parser, "the evidence must follow the category: weak or strong (exact is what was read "
                            "from a live object)");
    parser->clause->category = (uint8_t)category;
    parser->clause->evidence = (uint8_t)evidence;
    parser->has_category = true;
    return 0;
}

static int trait_bit(struct parser *parser, const char *name, uint8_t *bit)
{
    const char **names = parser->rules->trait_names;
    size_t i = 0;
    while (names[i] && strcmp(names[i], name) != 0)
        i++;
    if (i == VT_TRAIT_LIMIT)
        return fail(parser, "more than %u traits", VT_TRAIT_LIMIT);
    *bit = (uint8_t)i;
    if (!names[i])
        names[i] = vt_arena_text(&parser->rules->arena, name, strlen(name));
    return 0;
}

static int code_bit(const struct parser *parser, const char *name, uint8_t *bit)
{
    int found = find_name(code_names, name);
    *bit = (uint8_t)found;
    return found < 0 ? fail(parser, "'%s' is not a known class of code", name) : 0;
}

/* Which witness a condition is, WITNESS_COUNT = none. */
static enum witness witness_of(const struct vt_condition *condition)
{
    const uint64_t sizes = VT_LIFE(TRAINED) | VT_LIFE(MATCHES_PARAMETER) | VT_LIFE(LIKE_ALL_PARAMETERS) |
                           VT_LIFE(HOLDS_GRADIENTS);
    if (condition->kind == VT_CONDITION_KIND)
        return WITNESS_LAYER;
    if (condition->kind < VT_CONDITION_KIND)
        return condition->negated ? WITNESS_COUNT : WITNESS_STACK;
    if (condition->kind != VT_CONDITION_LIFE || condition->bits & VT_LIFE(NO_BACKWARD))
        return WITNESS_COUNT;
    if (condition->bits & ~(sizes | VT_LIFE(GRAD_MODE)))
        return WITNESS_LIFE;
    if (condition->negated)
        return WITNESS_COUNT;
    return condition->bits & sizes ? WITNESS_SIZES : WITNESS_AUTOGRAD;
}

static int check_witnesses(const struct parser *parser)
{
    uint32_t found = 0;
    int only = WITNESS_COUNT;
    for (uint32_t i = 0; i < parser->clause->count; i++) {
        enum witness witness = witness_of(&parser->rules->conditions[parser->clause->first + i]);
        if (witness == WITNESS_COUNT)
            continue;
        found |= 1u << witness;
        only = (int)witness;
    }
    if (parser->clause->evidence != VT_EVIDENCE_STRONG || found & (found - 1))
        return 0;
    return fail(
        parser,
        "rule '%s' has %s%s: strong takes two of stack, life, sizes, object, autograd, kind; else write weak",
        parser->clause->name, found ? "only the signal " : "no signal", found ? witness_names[only] : "");
}

/* A rule without lines that has the name of one in the table read before: it only removes that. */
static bool removes_rule(const struct parser *parser)
{
    const struct vt_clauses *rules = &parser->rules->clauses[VT_CLAUSE_RULE];
    if (parser->kind != VT_CLAUSE_RULE || parser->has_category)
        return false;
    for (size_t i = 0; i < rules->count; i++)
        if (rules->items[i].file != parser->clause->file &&
            strcmp(rules->items[i].name, parser->clause->name) == 0)
            return true;
    return false;
}

static int end_clause(struct parser *parser)
{
    struct parser at = *parser;
    if (!parser->clause || removes_rule(parser))
        return 0;
    at.line = parser->clause->line;
    if (parser->kind == VT_CLAUSE_RULE && !parser->has_category)
        return fail(&at, "rule '%s' has no category", parser->clause->name);
    if (parser->clause->count == 0)
        return fail(&at, "'%s' has no condition", parser->clause->name);
    if (parser->kind == VT_CLAUSE_RULE && check_witnesses(&at))
        return -EINVAL;
    parser->clause->text = vt_arena_text(&parser->rules->arena, parser->clause_text,
                                         (size_t)(parser->clause_end - parser->clause_text));
    return 0;
}

static int begin_clause(struct parser *parser, char *line)
{
    struct vt_rules *rules = parser->rules;
    int error = end_clause(parser);
    if (error)
        return error;
    const char *word = next_word(&line), *name = next_word(&line);
    int kind = find_name(clause_names, word);
    if (kind < 0)
        return fail(parser, "'%s': expected 'rule', 'trait' or 'code'", word);
    if (!name || next_word(&line))
        return fail(parser, "'%s' needs one name", word);
    parser->kind = (enum vt_clause_kind)kind;
    parser->has_category = false;
    struct vt_clauses *clauses = &rules->clauses[kind];
    if (clauses->count >= RULE_LIMIT)
        return fail(parser, "more than %u rules", RULE_LIMIT);
    struct vt_clause clause = {
        .first = (uint32_t)rules->condition_count, .file = parser->file, .line = parser->line};
    if (parser->kind == VT_CLAUSE_TRAIT)
        error = trait_bit(parser, name, &clause.bit);
    else if (parser->kind == VT_CLAUSE_CODE)
        error = code_bit(parser, name, &clause.bit);
    if (error)
        return error;
    clause.name = vt_arena_text(&rules->arena, name, strlen(name));
    VT_APPEND(clauses->items, clauses->count, clauses->capacity, clause);
    parser->clause = &clauses->items[clauses->count - 1];
    parser->clause_text = parser->text;
    return 0;
}

static int parse_line(struct parser *parser, char *line)
{
    bool indented = strchr(BLANKS, line[0]) != NULL;
    line[strcspn(line, "#")] = '\0';
    line += strspn(line, BLANKS);
    if (*line == '\0')
        return 0;
    int error;
    if (!indented)
        error = begin_clause(parser, line);
    else if (!parser->clause)
        error = fail(parser, "a condition before the first 'rule', 'trait' or 'code'");
    else if (parser->kind == VT_CLAUSE_RULE && !parser->has_category)
        error = parse_category(parser, line);
    else
        error = parse_condition(parser, line);
    parser->clause_end = parser->text_end;
    return error;
}

static int parse_text(struct vt_rules *rules, const char *file, const char *text, size_t bytes,
                      char *error_text, size_t error_bytes)
{
    struct parser parser = {.rules = rules, .error = error_text, .error_bytes = error_bytes};
    const char *end = text + bytes;
    int error = 0;
    char *line = vt_allocate(bytes + 1);
    parser.file = vt_arena_text(&rules->arena, file, strlen(file));
    while (text < end && !error) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        stop = stop ? stop : end;
        memcpy(line, text, (size_t)(stop - text));
        line[stop - text] = '\0';
        parser.line++;
        parser.text = text;
        parser.text_end = stop;
        error = parse_line(&parser, line);
        text = stop + 1;
    }
    free(line);
    return error ? error : end_clause(&parser);
}

static int parse_file(struct vt_rules *rules, const char *path, char *error_text, size_t error_bytes)
{
    int error = 0;
    struct stat status;
    char *text = vt_allocate(FILE_BYTES_LIMIT);
    FILE *file = fopen(path, "re");
    if (!file) {
        error = -errno;
    } else if (fstat(fileno(file), &status) == 0 && S_ISDIR(status.st_mode)) {
        error = -EISDIR;
    } else {
        size_t bytes = fread(text, 1, FILE_BYTES_LIMIT, file);
        error = ferror(file) ? -EIO : bytes == FILE_BYTES_LIMIT ? -EFBIG : 0;
        if (!error)
            error = parse_text(rules, path, text, bytes, error_text, error_bytes);
    }
    if (error && error != -EINVAL && error_bytes > 0)
        snprintf(error_text, error_bytes, "%s: %s", path, strerror(-error));
    if (file)
        fclose(file);
    free(text);
    return error;
}

/* Moves the rules after the first `builtin` to the front, and removes built-in ones with their names. A
 * user's rules are read after the built-in ones, so that they can use the built-in traits, but are tried
 * first. One without conditions is only there to remove another. */
static void put_users_first(struct vt_clauses *rules, size_t builtin)
{
    struct vt_clause *moved = vt_allocate((rules->count + 1) * sizeof *moved);
    size_t count = 0;
    for (size_t i = builtin; i < rules->count; i++)
        if (rules->items[i].count)
            moved[count++] = rules->items[i];
    for (size_t i = 0; i < builtin; i++) {
        bool is_replaced = false;
        for (size_t j = builtin; j < rules->count; j++)
            is_replaced |= strcmp(rules->items[i].name, rules->items[j].name) == 0;
        if (!is_replaced)
            moved[count++] = rules->items[i];
    }
    free(rules->items);
    rules->items = moved;
    rules->count = count;
}

int vt_rules_load(const char *path, struct vt_rules **made, char *error_text, size_t error_bytes)
{
    struct vt_rules *rules = vt_allocate_zeros(1, sizeof *rules);
    *made = NULL;
    memcpy(rules->trait_names, own_trait_names, sizeof own_trait_names); /* these have fixed bits */
    int error =
        parse_text(rules, "rules.def", builtin_text, sizeof builtin_text - 1, error_text, error_bytes);
    size_t builtin = rules->clauses[VT_CLAUSE_RULE].count;
    if (!error && path)
        error = parse_file(rules, path, error_text, error_bytes);
    if (!error)
        put_users_first(&rules->clauses[VT_CLAUSE_RULE], builtin);
    if (error)
        vt_rules_free(rules);
    else
        *made = rules;
    return error;
}

void vt_rules_free(struct vt_rules *rules)
{
    if (!rules)
        return;
    for (size_t i = 0; i < VT_PATTERN_KINDS; i++)
        free(rules->patterns[i].items);
    for (size_t i = 0; i < VT_CLAUSE_KINDS; i++)
        free(rules->clauses[i].items);
    free(rules->conditions);
    free(rules->alternatives);
    vt_arena_free(&rules->arena);
    free(rules);
}

/* The lines of frameworks.def that describe optimizers. */
static const int optimizer_lines[] = {
#define VT_STATES(file, name, least, most) __LINE__,
#include "trace/frameworks.def"
};

void vt_rules_source(const struct vt_rules *rules, size_t rule, struct vt_rule_source *source)
{
    static const struct vt_clause none = {.name = "", .text = "", .file = ""};
    const struct vt_clauses *clauses = &rules->clauses[VT_CLAUSE_RULE];
    const struct vt_clause *clause = rule < clauses->count ? &clauses->items[rule] : &none;
    *source = (struct vt_rule_source){clause->name, clause->text, clause->file, clause->line};
    if (rule == VT_RULE_IDENTITY)
        *source = (struct vt_rule_source){"identity",
                                          "decided again by what an optimizer keeps (report, identities)",
                                          "frameworks.def", optimizer_lines[0]};
}
