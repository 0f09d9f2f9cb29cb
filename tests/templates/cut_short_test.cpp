// Job files that lost a quote, a colon or their end: they are refused, never read as another job.
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

const std::string rest_of_job =
    "environment: azureml:host\ncompute: lab\nresources: {instance_count: 4}\n"
    "limits: {timeout: 3600}\n"
    "distribution: {type: pytorch}\n";

std::string cut_findings(const std::string& text) {
  return printed(read_job(text).findings);
}

TEST_CASE("a quote that is never closed is an error at the quote, not another job") {
  for (const char* quote : {"\"", "'"}) {
    for (const bool ends_in_newline : {true, false}) {
      std::string text = std::string("command: ") + quote + "python train.py\n" + rest_of_job;
      if (!ends_in_newline) text.pop_back();
      INFO(text);
      const JobFile job = read_job(text);
      CHECK(job.kind == FileKind::unreadable);
      CHECK(printed(job.findings) ==
            std::string("job.yml:1:10: error: the quote ") + quote +
                " that opens here is never closed; all that follows would belong to this value\n"
                "  command: " +
                quote + "python train.py\n           ^\n");
    }
  }
}

TEST_CASE("a bracket that is never closed is an error at the bracket") {
  const auto said = [](const std::string& text) { return printed(read_job(text).findings); };
  for (const char* end : {"", "\n", "\n\n\n"}) {
    CHECK_THAT(said(std::string("command: x\nresources: {instance_count: 2") + end),
               ContainsSubstring("job.yml:2:12: error: the '{' that opens here is never closed\n"));
  }
  CHECK_THAT(said("command: x\nlimits: {a: [1, 2\n"), ContainsSubstring("job.yml:2:17: error: "));
  CHECK_THAT(said("resources: {instance_count: 2\ncommand: x\nname: y\n"),
             ContainsSubstring("job.yml:1:12: error: the '{' that opens here has no ',' or '}' at "
                               "line 2, column"));
}

TEST_CASE("an open quote is found behind a tag, an anchor, in lists and in keys") {
  const std::string open = "that opens here is never closed";
  CHECK_THAT(cut_findings("command: x\nname: !!str \"a\ncompute: b\n"),
             ContainsSubstring("job.yml:2:13: error: the quote \" " + open));
  CHECK_THAT(cut_findings("command: &c 'a\ncompute: b\n"),
             ContainsSubstring("job.yml:1:13: error: the quote ' " + open));
  CHECK_THAT(cut_findings("command: x\ntags: [a, \"b]\ncompute: c\n"),
             ContainsSubstring("job.yml:2:11: error: the quote \" " + open));
  CHECK_THAT(cut_findings("command: 'it''s'\nname: \"a \\\" b\n"),
             ContainsSubstring("job.yml:2:7: error: the quote \" " + open));
  CHECK_THAT(cut_findings("command: x\n\"compute: lab\n"),
             ContainsSubstring("job.yml:2:1: error: the quote \" " + open));
}

TEST_CASE("a closed quote of any form is no finding") {
  CHECK(cut_findings("command: 'it''s \"so\"'\nname: \"a\"\n" + rest_of_job) == "");
  CHECK(cut_findings("command: \"a \\\" ' \\\\\"\n" + rest_of_job) == "");
  CHECK(cut_findings("command: &c !!str 'x'\ndescription: *c\n" + rest_of_job) == "");
  CHECK(cut_findings("command: |\n  echo \"open\n" + rest_of_job) == "");
  CHECK(cut_findings("command: echo \"open\n" + rest_of_job) == "");
  CHECK(cut_findings("command: \"two\n  lines, no key\"\n" + rest_of_job) == "");
}

TEST_CASE("a value in quotes over lines that look like keys is a warning at the quote") {
  CHECK_THAT(
      cut_findings("command: \"python train.py\nlimits: {timeout: 5}\ntags: {a: \"b\"}\n"),
      ContainsSubstring("job.yml:1:10: warning: the value in \" continues over several lines, "
                        "and one of them begins with 'limits:'; is a closing quote"));
  CHECK_THAT(cut_findings("command: 'a\n  resources: b'\n" + rest_of_job),
             ContainsSubstring("warning: the value in ' continues"));
}

TEST_CASE("a last line without its colon is an error") {
  CHECK_THAT(cut_findings("command: x\n" + rest_of_job + "tags"),
             ContainsSubstring("job.yml:7:1: error: no ':' after 'tags'"));
  CHECK_THAT(cut_findings("command: x\n" + rest_of_job + "tags\n"),
             ContainsSubstring("job.yml:7:1: error: no ':' after 'tags'"));
  CHECK_THAT(cut_findings("command: x\n" + rest_of_job + "tags\n\n# the end\n"),
             ContainsSubstring("job.yml:7:1: error: not valid YAML: a key and ':' are expected"));
  CHECK_THAT(cut_findings("command: x\nresources:\n  instance_count: 2\n  shm_size\n"),
             ContainsSubstring("job.yml:4:3: error: no ':' after 'shm_size'"));
  CHECK(cut_findings("command: x\n" + rest_of_job + "tags:") == "");
  CHECK(cut_findings("command: x\n" + rest_of_job + "tags: {a, b: c}\n") == "");
  CHECK(cut_findings(rest_of_job + "command:\n  python train.py") == "");
}

TEST_CASE("an empty file is an error of every verb") {
  for (const char* text : {"", "# nothing\n", "---\n", "~\n"}) {
    const JobFile job = read_job(text);
    CHECK(job.kind == FileKind::empty);
    CHECK(printed(job.findings) == "job.yml: error: the file is empty; a job has a 'command'\n");
  }
}

}  // namespace
}  // namespace muster
