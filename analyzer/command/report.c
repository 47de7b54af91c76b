/* report, timeline, and the commands that print a section of the report: a report in memory, printed as text
 * or JSON. */
#include "command/load.h"
#include "command/pager.h"
#include "findings/findings.h"
#include "view/json/json.h"
#include "view/text/views.h"

#define BY(way) (1u << VT_BY_##way)
#define ALL_GROUPS 0u

/* What each of these commands needs and prints. */
static const struct page {
    enum vt_command_id command;
    vt_text_view *text;
    const struct vt_document *json;
    unsigned findings;                 /* of enum vt_finding */
    unsigned text_groups, json_groups; /* without --by */
    /* The moment that is shown without --at. The report's JSON has "at" only with --at. */
    enum vt_at_oom text_oom, json_oom;
    const char *at; /* where memory did not run out; NULL = the peak */
    size_t timeline_columns;
} pages[] = {
    {VT_COMMAND_REPORT, vt_text_report, &vt_report_document,
     VT_FIND_LEAKS | VT_FIND_ADVICE | VT_FIND_SHORTAGE | VT_FIND_GRAPH_POOLS | VT_FIND_CARD,
     BY(MODULE) | BY(LINE) | BY(STACK), ALL_GROUPS, VT_AT_OOM_IF_IT_ENDED_THE_RUN, VT_AT_OOM_NEVER, NULL,
     VT_TIMELINE_COLUMNS},
    {VT_COMMAND_TIMELINE, vt_text_timeline, &vt_timeline_document, 0, VT_NO_GROUPS, VT_NO_GROUPS,
     VT_AT_OOM_NEVER, VT_AT_OOM_NEVER, NULL, VT_TIMELINE_COLUMNS},
    {VT_COMMAND_OOM, vt_text_oom, &vt_oom_document, VT_FIND_LEAKS | VT_FIND_SHORTAGE,
     BY(MODULE) | BY(LINE) | BY(STACK) | BY(OWNER), ALL_GROUPS, VT_AT_OOM_ONLY, VT_AT_OOM_ONLY, NULL,
     VT_NO_TIMELINE},
    {VT_COMMAND_FRAG, vt_text_frag, &vt_frag_document, VT_FIND_FRAGMENTATION, VT_NO_GROUPS, VT_NO_GROUPS,
     VT_AT_OOM_IF_IT_ENDED_THE_RUN, VT_AT_OOM_IF_IT_ENDED_THE_RUN, "reserved", VT_NO_TIMELINE},
    {VT_COMMAND_LEAKS, vt_text_leaks_page, &vt_leaks_document, VT_FIND_LEAKS, VT_NO_GROUPS, VT_NO_GROUPS,
     VT_AT_OOM_NEVER, VT_AT_OOM_NEVER, NULL, VT_NO_TIMELINE},
    {VT_COMMAND_STEPS, vt_text_steps, &vt_steps_document, VT_FIND_STEPS, VT_NO_GROUPS, VT_NO_GROUPS,
     VT_AT_OOM_NEVER, VT_AT_OOM_NEVER, NULL, VT_NO_TIMELINE},
};

/* report --summary */
static const struct page summary = {VT_COMMAND_REPORT,
                                    vt_text_summary,
                                    &vt_summary_document,
                                    VT_FIND_LEAKS,
                                    BY(MODULE) | BY(LINE) | BY(STACK),
                                    VT_NO_GROUPS,
                                    VT_AT_OOM_IF_IT_ENDED_THE_RUN,
                                    VT_AT_OOM_NEVER,
                                    NULL,
                                    VT_NO_TIMELINE};

static const struct page *page_of(const struct vt_arguments *arguments)
{
    const struct page *page = pages;

    if (arguments->summary)
        return &summary;
    while (arguments->command->bit != 1u << page->command)
        page++;
    return page;
}

/* With --brief, JSON accompanies the text. */
static bool is_json(const struct vt_arguments *arguments)
{
    return arguments->json && !arguments->brief;
}

static unsigned groups_for(const struct vt_arguments *arguments, const struct page *page)
{
    unsigned by = arguments->by < 0 ? 0 : arguments->by < VT_BY_COUNT ? 1u << arguments->by : 0;

    if (is_json(arguments))
        return page->json_groups;
    /* the verdict names modules and lines */
    return arguments->by < 0 ? page->text_groups : (page->text_groups & ~BY(STACK)) | by;
}

/* The text's axis leaves out idle time; JSON's covers all time by default. */
static uint8_t axis_for(const struct vt_arguments *arguments)
{
    if (arguments->axis >= 0)
        return (uint8_t)arguments->axis;
    return is_json(arguments) ? VT_AXIS_TIME : VT_AXIS_AUTO;
}

static struct vt_report_options options_for(const struct vt_arguments *arguments, const struct page *page)
{
    return (struct vt_report_options){.device_index = arguments->device,
                                      .explain = arguments->explain,
                                      .at = arguments->at,
                                      .default_at = page->at,
                                      .groups = groups_for(arguments, page),
                                      .shown_only = !is_json(arguments) || page->json == &vt_oom_document,
                                      .oom = is_json(arguments) ? page->json_oom : page->text_oom,
                                      .depth = (unsigned)arguments->depth,
                                      .blocks = arguments->by == VT_BY_BLOCK,
                                      .timeline_columns = page->timeline_columns,
                                      .axis = axis_for(arguments),
                                      .from = arguments->from,
                                      .to = arguments->to};
}

/* In text an explanation is all that is printed. An assistant gets all that decides on one page. */
static unsigned findings_for(const struct vt_arguments *arguments, const struct page *page)
{
    if (arguments->explain && !is_json(arguments))
        return 0;
    return page->findings | (arguments->by == VT_BY_HOLDER ? VT_FIND_HOLDERS : 0) |
           (arguments->brief && page->command == VT_COMMAND_OOM ? VT_FIND_ADVICE | VT_FIND_GRAPH_POOLS : 0);
}

static void print_brief(const struct vt_report *report, const struct vt_arguments *arguments,
                        const struct page *page, struct vt_output *output)
{
    const struct vt_view_style style = vt_style(arguments, output);
    const struct vt_json_style json = {.top = arguments->summary ? style.top : (style.top + 1) / 2,
                                       .compact = true,
                                       .brief = !arguments->summary};

    if (arguments->json)
        vt_json_write(page->json, report, &json, output->stream);
    page->text(report, &style, output->stream);
}

static void print_page(const struct vt_report *report, const struct vt_arguments *arguments,
                       const struct page *page, struct vt_output *output)
{
    const struct vt_view_style style = vt_style(arguments, output);
    const struct vt_json_style json = {.places = report->places,
                                       .report = report,
                                       .top = arguments->top,
                                       .compact = arguments->operand_count > 1};

    if (arguments->brief)
        print_brief(report, arguments, page, output);
    else if (arguments->json)
        vt_json_write(page->json, report, &json, output->stream);
    else
        page->text(report, &style, output->stream);
}

static int report_one(const struct vt_arguments *arguments, const char *path, struct vt_output *output)
{
    const struct page *page = page_of(arguments);
    const struct vt_report_options options = options_for(arguments, page);
    struct vt_loaded loaded;
    int result = vt_load_report(arguments, path, &options, findings_for(arguments, page), &loaded);

    if (result)
        return result;
    vt_begin_page(arguments, output);
    print_page(loaded.report, arguments, page, output);
    result = vt_written(output, 0);
    vt_unload(&loaded);
    return result;
}

int vt_command_report(struct vt_arguments *arguments, struct vt_output *output)
{
    const char *separator = vt_style(arguments, output).unicode ? "\n────────\n\n" : "\n--------\n\n";

    return vt_for_each_trace(arguments, output, arguments->json ? NULL : separator, report_one);
}
