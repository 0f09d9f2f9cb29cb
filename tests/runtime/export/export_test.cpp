// Exports of a small GPT: names, splitting, refusals, and a directory that is whole or not there.
// That the files mean the right thing to others is checked by exported_model.py.

#include "runtime/export/export.h"

#include <cstring>
#include <filesystem>

#include "runtime/tokenize/tokenizer_file.h"
#include "tests/catch.h"
#include "tests/runtime/a_gpt_checkpoint.h"
#include "tests/runtime/a_run.h"

using namespace muster;
using namespace muster::test;

namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_of(const std::vector<ExportedFile>& files) {
  std::vector<std::string> names;
  for (const ExportedFile& file : files) names.push_back(file.name);
  return names;
}

}  // namespace

TEST_CASE("the shape of a GPT is read off its tensors") {
  GptShape shape = shape_of_all;
  const auto tied = exported_model(gpt_manifest(shape));
  REQUIRE(tied);
  CHECK(tied.value().layers == 2);
  CHECK(tied.value().width == 16);
  CHECK(tied.value().heads == 4);
  CHECK(tied.value().context == 8);
  CHECK(tied.value().vocabulary == 50);
  CHECK(tied.value().tied);
  shape.tied = false;
  CHECK_FALSE(exported_model(gpt_manifest(shape)).value().tied);
}

TEST_CASE("the tokenizer that the run kept is exported with its special ids") {
  Folder folder;
  const std::string path = commit_gpt(folder / "ckpt", shape_of_all);
  const auto exported = [&](const std::string& out, ExportFormat format) {
    ExportOptions options;
    options.directory = folder / out;
    options.format = format;
    const auto files = export_checkpoint(path, options);
    REQUIRE(files.ok());
    return names_of(files.value());
  };
  const std::vector<std::string> weights{"config.json", "model.safetensors"};
  CHECK(exported("without", ExportFormat::safetensors) == weights);
  const std::string text =
      R"({"added_tokens":[{"id":48,"content":"<|pad|>"},{"id":49,"content":"<|endoftext|>"}],)"
      R"("model":{"vocab":{"a":0}}})";
  put(folder / "ckpt/tokenizer-00000000.json", text);
  CHECK(exported("with", ExportFormat::safetensors) ==
        std::vector<std::string>{"config.json", "model.safetensors", "special_tokens_map.json",
                                 "tokenizer.json", "tokenizer_config.json"});
  CHECK(content_of(folder / "with/tokenizer.json") == text);
  CHECK_THAT(content_of(folder / "with/config.json"), ContainsSubstring("\"eos_token_id\": 49"));
  CHECK_THAT(content_of(folder / "with/config.json"), ContainsSubstring("\"bos_token_id\": 49"));
  CHECK_THAT(content_of(folder / "with/tokenizer_config.json"),
             ContainsSubstring("\"eos_token\": \"<|endoftext|>\""));
  CHECK_THAT(content_of(folder / "with/tokenizer_config.json"),
             ContainsSubstring("\"model_max_length\": 8"));
  CHECK(exported("onnx", ExportFormat::onnx).size() == 4);
}

TEST_CASE("a run keeps the tokenizer of its data, in which a byte is a token for text") {
  Folder folder;
  const ARun run = ARun{folder / "out", 2}.with([&](TrainOptions& options) {
    options.checkpoint_dir = folder / "ckpt";
    options.steps = 1;
  });
  REQUIRE(run.go() == "0");
  ExportOptions options;
  options.directory = folder / "model";
  REQUIRE(export_checkpoint(folder / "ckpt/s000000001-g1", options).ok());
  const auto tokenizer = parse_tokenizer(content_of(folder / "model/tokenizer.json"), "");
  REQUIRE(tokenizer);
  CHECK(tokenizer.value().decode({'a', 'b'}) == "ab");
  CHECK_THAT(content_of(folder / "model/config.json"), ContainsSubstring("\"eos_token_id\": 0"));
}

TEST_CASE("a kept tokenizer that is none stops the export with its name") {
  Folder folder;
  const std::string path = commit_gpt(folder / "ckpt", shape_of_all);
  ExportOptions options;
  options.directory = folder / "model";
  for (const std::string& text : {std::string("{}"), std::string(50000, '['), std::string("x")}) {
    put(folder / "ckpt/tokenizer-00000000.json", text);
    CHECK_THAT(export_checkpoint(path, options).reason(), ContainsSubstring("tokenizer-00000000"));
    CHECK_FALSE(fs::exists(folder / "model"));
  }
}

TEST_CASE("what is no GPT is refused with the reason") {
  const auto complaint = [](const std::function<void(Manifest&)>& change) {
    Manifest manifest = gpt_manifest(shape_of_all);
    change(manifest);
    return exported_model(manifest).reason();
  };
  CHECK_THAT(complaint([](Manifest& m) { m.flat = a_flat_space(); }),
             ContainsSubstring("no tables wte.weight"));
  CHECK_THAT(complaint([](Manifest& m) { m.flat.params[5].name = "h.0.attn.c_attn.bee"; }),
             ContainsSubstring("h.0.attn.c_attn.bias is missing"));
  CHECK_THAT(complaint([](Manifest& m) {
               m.flat.params[4].shape = {48, 16};
             }),
             ContainsSubstring("h.0.attn.c_attn.weight has another shape"));
  CHECK_THAT(complaint([](Manifest& m) { m.flat.add("more", {1}, false); }),
             ContainsSubstring("more tensors"));
  CHECK_THAT(complaint([](Manifest& m) { m.train.config["heads"] = "3"; }),
             ContainsSubstring("'3' does not divide the width 16"));
  CHECK_THAT(complaint([](Manifest& m) { m.train.config["heads"] = "4x"; }),
             ContainsSubstring("'4x' does not divide"));
  CHECK_THAT(complaint([](Manifest& m) { m.train.config.clear(); }),
             ContainsSubstring("do not say how many heads"));
}

TEST_CASE("an export holds every value once, without the padding, whatever the size of its files") {
  Folder folder;
  const std::string path = commit_gpt(folder.path(), shape_of_all);
  const FlatSpace flat = gpt_flat_space(shape_of_all);
  std::string wanted;
  for (const FlatParameter& param : flat.params) {
    for (std::uint64_t i = 0; i < param.size(); ++i) {
      const auto value = static_cast<float>(param.offset + i);
      wanted.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
  }
  for (const std::uint64_t bytes : {1ull, 5000ull, 20000ull, 1ull << 40}) {
    const std::string out = folder / std::to_string(bytes);
    const auto files = export_checkpoint(
        path, {.format = ExportFormat::safetensors, .directory = out, .shard_bytes = bytes});
    if (!files) FAIL(files.reason());
    std::string values;
    std::size_t weights = 0;
    for (const ExportedFile& file : files.value()) {
      if (!file.name.ends_with(".safetensors")) continue;
      ++weights;
      const std::string content = content_of(out + "/" + file.name);
      std::uint64_t length = 0;
      std::memcpy(&length, content.data(), sizeof length);
      values += content.substr(sizeof length + length);
      if (bytes >= 4096) CHECK(content.size() - sizeof length - length <= bytes);  // largest tensor
    }
    CHECK(values == wanted);
    CHECK((weights == 1) == fs::exists(out + "/model.safetensors"));
    CHECK((weights > 1) == fs::exists(out + "/model.safetensors.index.json"));
    if (bytes == 1) CHECK(weights == flat.params.size());
  }
}

TEST_CASE("an export is whole or not there") {
  Folder folder;
  const std::string path = commit_gpt(folder.path(), shape_of_all);
  const std::string out = folder / "out";
  put(path + "/shard-00001-of-00002.safetensors",
      content_of(path + "/shard-00001-of-00002.safetensors").replace(5000, 1, "!"));
  for (const ExportFormat format : {ExportFormat::safetensors, ExportFormat::onnx}) {
    const auto failed = export_checkpoint(path, {.format = format, .directory = out});
    REQUIRE_FALSE(failed);
    CHECK_THAT(failed.reason(), ContainsSubstring("do not match their checksum"));
    CHECK_FALSE(fs::exists(out));
    CHECK_FALSE(fs::exists(out + ".partial"));
  }
  const std::string good = commit_gpt(folder / "more", shape_of_all);
  put(out + "/mine", "x");
  CHECK_THAT(export_checkpoint(good, {.directory = out}).reason(),
             ContainsSubstring("is not empty"));
  CHECK(content_of(out + "/mine") == "x");
  fs::remove(out + "/mine");
  const auto files = export_checkpoint(good, {.directory = out + "/"});
  REQUIRE(files);
  CHECK(names_of(files.value()) == std::vector<std::string>{"config.json", "model.safetensors"});
}

TEST_CASE("what the caller adds to an export belongs to the whole") {
  Folder folder;
  const std::string path = commit_gpt(folder.path(), shape_of_all);
  const std::string out = folder / "out";
  std::string seen;
  ExportOptions options{.directory = out};
  options.complete = [&](const std::string& directory, std::vector<ExportedFile>& files) {
    CHECK_FALSE(fs::exists(out));
    for (const ExportedFile& file : files) seen += file.name + " ";
    put(directory + "/sums", "1");
    files.push_back({"sums", 1});
    return Checked<NoValue>(NoValue{});
  };
  const auto files = export_checkpoint(path, options);
  REQUIRE(files);
  CHECK(seen == "config.json model.safetensors ");
  CHECK(names_of(files.value()).back() == "sums");
  CHECK(content_of(out + "/sums") == "1");
  fs::remove_all(out);
  options.complete = [](const std::string&, std::vector<ExportedFile>&) -> Checked<NoValue> {
    return CheckpointFault{"no room"};
  };
  CHECK(export_checkpoint(path, options).reason() == "no room");
  CHECK_FALSE(fs::exists(out));
  CHECK_FALSE(fs::exists(out + ".partial"));
}

TEST_CASE("an export leaves alone what it did not make") {
  Folder folder;
  const std::string path = commit_gpt(folder.path(), shape_of_all);
  put(folder / "out.partial/mine", "x");
  CHECK_THAT(export_checkpoint(path, {.directory = folder / "out"}).reason(),
             ContainsSubstring("out.partial is there already"));
  put(folder / "file", "");
  CHECK_THAT(export_checkpoint(path, {.directory = folder / "file"}).reason(),
             ContainsSubstring("no directory"));
  put(folder / "full/mine", "x");
  put(folder / "full.partial/mine", "x");
  CHECK_FALSE(export_checkpoint(path, {.directory = folder / "full"}));
  for (const char* mine : {"out.partial/mine", "full/mine", "full.partial/mine"}) {
    CHECK(content_of(folder / mine) == "x");
  }
  CHECK_FALSE(fs::exists(folder / "out"));
}

TEST_CASE("an ONNX file has its weights in it, or beside it when that is asked for") {
  Folder folder;
  const std::string path = commit_gpt(folder.path(), shape_of_all);
  const auto one =
      export_checkpoint(path, {.format = ExportFormat::onnx, .directory = folder / "one"});
  REQUIRE(one);
  CHECK(names_of(one.value()) == std::vector<std::string>{"model.onnx"});
  const auto two = export_checkpoint(
      path, {.format = ExportFormat::onnx, .directory = folder / "two", .external_data = true});
  REQUIRE(two);
  CHECK(names_of(two.value()) == std::vector<std::string>{"model.onnx", "model.onnx.data"});
  const std::uint64_t weights = exported_model(gpt_manifest(shape_of_all)).value().bytes();
  CHECK(one.value()[0].bytes > weights);
  CHECK(two.value()[0].bytes < one.value()[0].bytes - weights + 8192);
}
