// Input that tries to hurt: every text ends in findings, within a second and without much memory.
#include <ctime>
#include <random>

#include "templates/cluster/file.h"
#include "templates/job/job_file.h"
#include "templates/job/starter.h"
#include "templates/azure/azure.h"
#include "templates/parse_file.h"
#include "templates/yaml/reader.h"
#include "tests/catch.h"
#include "tests/templates/files_in_memory.h"

namespace muster {
namespace {

// Seconds of this process on a processor: what a busy machine does not change.
double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  out.reserve(text.size() * static_cast<std::size_t>(times));
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

// The promise is a second; the sanitizers and a debug build are several times slower.
#if defined(__SANITIZE_ADDRESS__)
constexpr double longest_seconds = 15.0;
#else
constexpr double longest_seconds = 1.0;
#endif

// The findings; fails when they took too long.
std::string findings_in_time(const std::string& text) {
  const double start = processor_seconds();
  const JobFile job = read_job(text);
  const double taken = processor_seconds() - start;
  INFO("beginning: " << text.substr(0, 40) << ", seconds: " << taken);
  CHECK(taken < longest_seconds);
  return printed(job.findings);
}

constexpr int megabyte = 1 << 20;

TEST_CASE("brackets that are closed again may be any number") {
  const std::string rest = "'\nenvironment: azureml:host\ncompute: local\n";
  CHECK(printed(read_job("command: '" + repeated("[a] {b} ", 1200) + rest).findings) == "");
  CHECK_THAT(printed(read_job("command: '" + repeated("[", 1001) + rest).findings),
             ContainsSubstring("brackets are nested too deeply"));
}

TEST_CASE("a file beyond the size limit is refused before it is parsed") {
  CHECK(findings_in_time("command: " + std::string(max_file_bytes, 'x')) ==
        "job.yml: error: the file is larger than 1 MiB\n");
}

TEST_CASE("bytes that are not text are refused with their place") {
  CHECK_THAT(findings_in_time(std::string("command: a\0b\n", 13)),
             ContainsSubstring("job.yml:1:11: error: the file contains a NUL byte"));
  CHECK_THAT(findings_in_time("command: x\nname: \xff\xfe\n"),
             ContainsSubstring("job.yml:2:7: error: the file is not UTF-8 text"));
  CHECK_THAT(findings_in_time("command: \xed\xa0\x80"), ContainsSubstring("not UTF-8"));
  CHECK_THAT(findings_in_time("command: \xc0\xaf"), ContainsSubstring("not UTF-8"));
  CHECK_THAT(findings_in_time("command: \x1b[2J"), ContainsSubstring("control character U+001B"));
  CHECK_THAT(findings_in_time(R"(command: "a\x01inputs.x\x02")"),
             ContainsSubstring("control characters U+0000 to U+0002"));
}

TEST_CASE("nesting without end is refused") {
  for (const char* opening :
       {"[", "{", "- ", "? ", "a: [", "{a: ", "[{", "- - ", "&a [", "!!map {"}) {
    const std::string text = repeated(opening, megabyte / 8);
    CHECK_THAT(findings_in_time(text), ContainsSubstring("error: "));
    CHECK_THAT(findings_in_time("command: " + text), ContainsSubstring("error: "));
  }
  std::string steps;
  for (int depth = 0; depth < 500; ++depth) steps += std::string(depth, ' ') + "a:\n";
  CHECK_THAT(findings_in_time(steps), ContainsSubstring("nested deeper than 64 levels"));
}

TEST_CASE("aliases that multiply are refused") {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int copy = 0; copy < 10; ++copy) text += (copy ? ", *a" : "*a") + before;
    text += "]\n";
  }
  CHECK_THAT(findings_in_time(text), ContainsSubstring("expand"));
  CHECK_THAT(findings_in_time("a: &a " + std::string(megabyte / 2, 'x') + "\nb: [" +
                              repeated("*a, ", 1000) + "]\n"),
             ContainsSubstring("expand"));
  CHECK_THAT(findings_in_time("a: &a [*a]"), ContainsSubstring("alias inside its own anchor"));
  CHECK_THAT(findings_in_time("a: *nowhere"), ContainsSubstring("error: "));
}

TEST_CASE("merge keys bring in what is not set, and nothing else") {
  const JobFile job = read_job(
      "tags: &t {a: one, b: two}\nproperties: {<<: *t, b: mine}\ncommand: x\n"
      "environment: azureml:host\ncompute: local\n");
  CHECK(printed(job.findings) == "");
  CHECK(job.spec.properties == std::map<std::string, std::string>{{"a", "one"}, {"b", "mine"}});
  CHECK_THAT(findings_in_time("command: x\ntags:\n  <<: text\n"),
             ContainsSubstring("'<<' merges maps, got 'text'"));
}

TEST_CASE("a duplicate key is an error that names both places") {
  CHECK_THAT(findings_in_time("command: x\nname: a\ncommand: y\n"),
             ContainsSubstring("job.yml:3:1: error: duplicate key 'command', first at 1:1"));
}

TEST_CASE("a second document is an error") {
  CHECK_THAT(findings_in_time("command: x\n---\ncommand: y\n"),
             ContainsSubstring("job.yml:3:1: error: a second YAML document"));
}

TEST_CASE("tabs that indent are an error, tabs inside a command are not") {
  CHECK_THAT(findings_in_time("command: x\nresources:\n\tinstance_count: 2\n"),
             ContainsSubstring("job.yml:3:2: error: a tab is used for indentation"));
  CHECK_THAT(findings_in_time("command: |\n  if true; then\n  \techo\n  fi\n"),
             !ContainsSubstring("tab"));
}

TEST_CASE("a byte order mark and CRLF line ends are tolerated") {
  const JobFile job = read_job(
      "\xEF\xBB\xBF"
      "command: x\r\nenvironment: azureml:host\r\ncompute: local\r\n");
  CHECK(printed(job.findings) == "");
  CHECK(job.spec.command == "x");
}

TEST_CASE("large files of odd shapes are read or refused in time") {
  CHECK(findings_in_time("command: " + std::string(900000, 'x')).size() < 5000);
  CHECK(findings_in_time(repeated("k: v\n", 100000)).size() < 100000);
  std::string keys;
  for (int i = 0; i < 20000; ++i) keys += "instance_cout" + std::to_string(i) + ": v\n";
  CHECK_THAT(findings_in_time(keys), ContainsSubstring("more; only the first 200 are shown"));
  CHECK(findings_in_time(repeated("#\n", 500000)).size() < 100000);
  CHECK(findings_in_time(repeated("\n", 1000000)).size() < 100000);
  CHECK(findings_in_time("command: x\ntags: {" + repeated("a, ", 300000) + "}").size() < 100000);
  CHECK(findings_in_time("command: \"" + repeated("\\n", 400000) + "\"").size() < 100000);
  CHECK(findings_in_time("command: |\n" + repeated("  x\n", 200000)).size() < 100000);
  CHECK(findings_in_time(repeated("a ", 400000)).size() < 100000);
  CHECK(findings_in_time(repeated("a\n", 400000)).size() < 100000);
  CHECK(findings_in_time(repeated("'", 800000)).size() < 100000);
  CHECK(findings_in_time(repeated("*a ", 300000)).size() < 100000);
  CHECK(findings_in_time(repeated("&a ", 300000)).size() < 100000);
  CHECK(findings_in_time(repeated("!a ", 300000)).size() < 100000);
  CHECK(findings_in_time(repeated("%a\n", 300000)).size() < 100000);
  CHECK(findings_in_time(repeated("---\n", 200000)).size() < 100000);
  CHECK(findings_in_time(repeated("- a: b\n", 100000)).size() < 100000);
  CHECK(findings_in_time(repeated("a: b: ", 100000)).size() < 100000);
  CHECK(findings_in_time(repeated(", ", 300000)).size() < 100000);
  CHECK(findings_in_time("command: '" + repeated("${{inputs.x}} ", 50000) + "'").size() < 100000);
  CHECK(findings_in_time("command: '" + repeated("${{inputs.x}}", 60000) + "'\ninputs: {x: '" +
                         std::string(200000, 'y') + "'}")
            .size() < 100000);
}

// `count` times `piece`, with every `#` in it replaced by a number.
std::string numbered(const std::string& piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    for (const char letter : piece)
      out += letter == '#' ? std::to_string(i) : std::string(1, letter);
  }
  return out;
}

TEST_CASE("thousands of names that are compared with thousands are read in time") {
  const std::string inputs = "inputs: {" + numbered("name#: 1, ", 12000) + "}\n";
  const std::string commands = "command: '" + numbered("${{inputs.nome#}} ", 30000) + "'\n";
  CHECK_THAT(findings_in_time(inputs + commands), ContainsSubstring("only the first 200"));
  CHECK_THAT(findings_in_time("name: c\nversion: 1\ntype: command\n" + inputs + commands),
             ContainsSubstring("error"));
  const std::string bound = "type: pipeline\n" + inputs + "jobs: {a: {command: x, inputs: {" +
                            numbered("n#: '${{parent.inputs.nome#}}', ", 10000) + "}}}";
  CHECK_THAT(findings_in_time(bound), ContainsSubstring("only the first 200"));
  CHECK_THAT(findings_in_time("type: pipeline\njobs: {" +
                              numbered("s#: {command: x, inputs: {i: "
                                       "'${{parent.jobs.s#.outputs.o}}'}, outputs: {o: }}, ",
                                       900) +
                              "}"),
             ContainsSubstring("wait for each other"));
  CHECK_THAT(
      findings_in_time("type: pipeline\njobs: {" + numbered("s#: {command: x}, ", 2000) + "}"),
      ContainsSubstring("at most 1000 steps"));
  CHECK_THAT(
      findings_in_time("command: x\nproperties: {" + numbered("muster.x#: 1, ", 20000) + "}"),
      ContainsSubstring("only the first 200"));
  CHECK_THAT(findings_in_time("command: x\nenvironment_variables: {" +
                              numbered("'a b#': 1, ", 20000) + "}"),
             ContainsSubstring("only the first 200"));
}

TEST_CASE("a chain of steps as long as it may be is read in time") {
  std::string text = "type: pipeline\njobs:\n";
  for (int i = 0; i < 1000; ++i) {
    text += "  s" + std::to_string(1000 + i) + ": {command: x, inputs: {i: '${{parent.jobs.s" +
            std::to_string(1001 + i) + ".outputs.o}}'}, outputs: {o: }}\n";
  }
  CHECK_THAT(findings_in_time(text), ContainsSubstring("there is no step 's2000'"));
}

TEST_CASE("a host range cannot fill the memory") {
  for (const char* hosts : {"n[0-99999999]", "n[0-999][0-999]", "n[0-9999999999999999999]", "n[1-2",
                            "n]1[", "n[[1]]", "n[5-1]", "n[1-2]x[1-2],nx"}) {
    findings_in_time(std::string("command: x\nmuster: {placement: {include: '") + hosts + "'}}");
  }
  const double start = processor_seconds();
  const ClusterFile file = read_cluster_file(
      "c.yml", "compute: {a: {nodes: [" + repeated("'n[00000-65535]', ", 2000) + "]}}",
      in_project());
  CHECK(!file.findings.empty());
  CHECK(processor_seconds() - start < longest_seconds);
}

// Changes that turn one legal file into thousands of nearly legal ones.
std::string mutated(std::string text, std::mt19937& random) {
  static const std::string pieces[] = {
      "\n", "  ",  "\t", ": ",   "- ", "{",    "}",     "[",  "]",       "'",    "\"",    "|",
      ">",  "&a ", "*a", "<<: ", "!",  "#",    "${{",   "}}", "inputs.", "null", "---\n", "\\",
      ",",  "%",   "@",  "`",    "~",  "\xc3", "1e999", "-1", "muster",  "<x>"};
  const auto pick = [&](std::size_t size) {
    return std::uniform_int_distribution<std::size_t>(0, size ? size - 1 : 0)(random);
  };
  const std::size_t changes = 1 + pick(6);
  for (std::size_t i = 0; i < changes && !text.empty(); ++i) {
    const std::size_t at = pick(text.size());
    switch (pick(5)) {
      case 0:
        text.erase(at, 1 + pick(20));
        break;
      case 1:
        text.insert(at, pieces[pick(std::size(pieces))]);
        break;
      case 2:
        text[at] = static_cast<char>(pick(256));
        break;
      case 3:
        text.insert(at, text.substr(pick(text.size()), pick(80)));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

TEST_CASE("thousands of damaged files end in findings") {
  std::mt19937 random(20240607);
  std::vector<std::string> samples;
  for (const Starter& starter : starters()) samples.emplace_back(starter.text);
  for (const std::string& text : golden_samples()) samples.push_back(text);
  samples.push_back("default: lab\ncompute:\n  lab:\n    nodes: [a, {name: b}]\n");
  const ReadOptions options = sample_project();
  double longest = 0;
  for (int round = 0; round < 12000; ++round) {
    const std::string text =
        mutated(samples[static_cast<std::size_t>(round) % samples.size()], random);
    const double start = processor_seconds();
    const JobFile job = read_job(text, options);
    printed(job.findings);
    printed(cannot_run_yet(job));
    render_for_azure(job);
    read_cluster_file("c.yml", text, in_project());
    longest = std::max(longest, processor_seconds() - start);
  }
  CHECK(longest < longest_seconds);
}

}  // namespace
}  // namespace muster
