#include "launcher/data/manifest.h"

#include <random>

#include "launcher/staging/content_hash.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"

namespace muster {
namespace {

// As rclone 1.60.1 lists an Azure blob container (Azurite 3.35).
constexpr const char* listed =
    R"({"Path":"train/a b.bin","Name":"a b.bin","Size":5,"MimeType":"application/octet-stream",)"
    R"("ModTime":"2024-05-06T07:08:09.000000000Z","IsDir":false,)"
    R"("Hashes":{"md5":"5d41402abc4b2a76b9719d911017c592"},"Tier":"Hot"},)";

std::string why_refused(const std::string& line) {
  std::vector<DataFile> files;
  const auto read = read_listed(line, files);
  return read ? "" : read.error().message;
}

std::string line_of_path(const std::string& path) {
  return R"({"Path":")" + path + R"(","Size":1,"ModTime":"2024-05-06T07:08:09Z"})";
}

DataManifest of(std::vector<DataFile> files) {
  return {"azure_blob|acct|c", "root", std::move(files)};
}

}  // namespace

TEST_CASE("a line of rclone's list is a file") {
  std::vector<DataFile> files;
  for (const char* line : {"[", listed, "]", "", R"({"Path":"d","IsDir":true,"Size":-1})"}) {
    REQUIRE(read_listed(line, files));
  }
  REQUIRE(files.size() == 1);
  CHECK(files[0] ==
        DataFile{"train/a b.bin", 5, 1714979289'000000000, "5d41402abc4b2a76b9719d911017c592"});
}

TEST_CASE("a listed name that leads elsewhere is refused") {
  for (const char* path : {"../x", "a/../b", "/etc/passwd", "a//b", ".", "", "a/", "a/./b"}) {
    CAPTURE(path);
    CHECK(!why_refused(line_of_path(path)).empty());
  }
  CHECK(!why_refused(line_of_path(std::string(256, 'a'))).empty());
  CHECK(!why_refused(line_of_path(std::string("a\\u0000b"))).empty());
  CHECK(why_refused(line_of_path("a b\\nc\\u00e9")).empty());
}

TEST_CASE("a file is told apart by its hash or its time, and one that has neither is refused") {
  CHECK(why_refused(R"({"Path":"a","Size":1,"ModTime":"9999-01-01T00:00:00Z"})") ==
        "the store tells neither a hash nor a usable time of 'a'");
  CHECK(why_refused(R"({"Path":"a","Size":1,"ModTime":"9999-01-01T00:00:00Z",)"
                    R"("Hashes":{"md5":"5d41402abc4b2a76b9719d911017c592"}})")
            .empty());
}

TEST_CASE("sizes and hashes that no store has are refused") {
  CHECK(!why_refused(R"({"Path":"a","Size":-1})").empty());
  CHECK(!why_refused(R"({"Path":"a","Size":99999999999999999})").empty());
  CHECK(!why_refused(R"({"Path":"a","Size":1.5})").empty());
  CHECK(!why_refused(R"({"Path":"a"})").empty());
  CHECK(!why_refused(R"({"Path":"a","Size":1,"Hashes":{"md5":"xyz"}})").empty());
  CHECK(!why_refused("{\"Path\":\"a\",").empty());
  CHECK(!why_refused("[[]]").empty());
}

TEST_CASE("a file that is also a directory is refused") {
  std::vector<DataFile> files{{"a/b/c"}, {"a-x"}, {"a"}};
  const auto ordered = put_in_order(files);
  REQUIRE(!ordered);
  CHECK(mentions(ordered.error().message, "'a' as a file and as a directory of 'a/b/c'"));
  std::vector<DataFile> twice{{"a"}, {"b"}, {"a"}};
  CHECK(mentions(put_in_order(twice).error().message, "twice"));
}

TEST_CASE("a manifest is the same text whatever order the store lists") {
  std::vector<DataFile> one{{"b", 1, 2, ""}, {"a\nb", 3, 4, ""}};
  std::vector<DataFile> other{one[1], one[0]};
  REQUIRE(put_in_order(one));
  REQUIRE(put_in_order(other));
  CHECK(data_manifest_text(of(one)) == data_manifest_text(of(other)));
  const auto read = read_data_manifest(data_manifest_text(of(one)));
  REQUIRE(read);
  CHECK(read->files == one);
  CHECK(read->store == "azure_blob|acct|c");
  CHECK(read->root == "root");
  CHECK(read->bytes() == 4);
}

TEST_CASE("a damaged manifest is refused") {
  std::vector<DataFile> files{{"a", 1, 2, ""}, {"b/c", 3, 4, ""}};
  const std::string text = data_manifest_text(of(files));
  CHECK(!read_data_manifest(""));
  CHECK(!read_data_manifest("{\"manifest\":2}\n"));
  CHECK(!read_data_manifest(text.substr(0, text.size() - 3)));
  CHECK(!read_data_manifest(text + "[\"../x\",1,1,\"\"]\n"));
  CHECK(!read_data_manifest(text + "[\"b\",1,1,\"\"]\n"));
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {  // whatever comes, an answer
    std::string broken = text;
    for (int k = 0; k < 3; ++k) broken[random() % broken.size()] = static_cast<char>(random());
    (void)read_data_manifest(broken);
    std::vector<DataFile> some;
    (void)read_listed(broken, some);
  }
}

TEST_CASE("the same object of a store has one name, another content another") {
  const DataFile file{"a", 1, 2, "5d41402abc4b2a76b9719d911017c592"};
  const std::string name = object_name(of({}), file);
  CHECK(is_content_hash(name));
  DataFile newer = file;
  newer.modified_ns = 3;
  CHECK(object_name(of({}), newer) != name);
  DataFile changed = file;
  changed.md5.back() = '3';
  CHECK(object_name(of({}), changed) != name);
  CHECK(object_name({"azure_blob|other|c", "root", {}}, file) != name);
  CHECK(object_name({"azure_blob|acct|c", "root/a", {}}, {"b", 1, 2, file.md5}) ==
        object_name({"azure_blob|acct|c", "root", {}}, {"a/b", 1, 2, file.md5}));
}

TEST_CASE("times of stores are read to the nanosecond") {
  CHECK(read_rfc3339("1970-01-01T00:00:01Z") == 1'000'000'000);
  CHECK(read_rfc3339("1970-01-01T00:00:01.5Z") == 1'500'000'000);
  CHECK(read_rfc3339("1970-01-01T02:00:01.000000001+02:00") == 1'000'000'001);
  CHECK(read_rfc3339("1969-12-31T22:59:59-01:00") == -1'000'000'000);
  for (const char* text : {"", "Z", "1970-01-01", "1970-13-01T00:00:00Z", "1970-01-01T00:00:01",
                           "9999-01-01T00:00:00Z", "1970-01-01T00:00:01+2"}) {
    CAPTURE(text);
    CHECK(!read_rfc3339(text));
  }
}

}  // namespace muster
