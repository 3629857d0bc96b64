// A libpmix.so.2 whose server is the folder FAKE_PMIX_FOLDER. Each value is a file RANK.KEY. As a server of another
// host does, it goes on answering with the value that it has given first. It asks anew when a program wants its cache
// refreshed.
//   PMIX_RANK and PMIX_NAMESPACE   as a launcher sets them
//   FAKE_PMIX_SIZE                 how many ranks the job has
//   FAKE_PMIX_LOCAL_SIZE           how many of them are on this host
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <pmix.h>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string path_of(pmix_rank_t rank, const char* key) {
  return variable("FAKE_PMIX_FOLDER") + "/" + std::to_string(rank) + "." + key;
}

bool read_file(const std::string& path, std::string& content) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return false;
  std::ostringstream text;
  text << file.rdbuf();
  content = text.str();
  return true;
}

void write_file(const std::string& path, const std::string& content) {
  std::ofstream(path + ".new", std::ios::binary) << content;
  std::filesystem::rename(path + ".new", path);
}

bool asks_anew(const pmix_info_t* info, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (std::strcmp(info[i].key, PMIX_GET_REFRESH_CACHE) == 0 && info[i].value.data.flag) return true;
  }
  return false;
}

}  // namespace

extern "C" {

pmix_status_t PMIx_Init(pmix_proc_t* self, pmix_info_t*, size_t) {
  if (variable("FAKE_PMIX_FOLDER").empty()) return PMIX_ERR_UNREACH;
  *self = {};
  std::strncpy(self->nspace, variable("PMIX_NAMESPACE").c_str(), PMIX_MAX_NSLEN);
  self->rank = static_cast<pmix_rank_t>(std::stoul(variable("PMIX_RANK")));
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Finalize(const pmix_info_t*, size_t) { return PMIX_SUCCESS; }

pmix_status_t PMIx_Put(pmix_scope_t, const char key[], pmix_value_t* value) {
  write_file(path_of(static_cast<pmix_rank_t>(std::stoul(variable("PMIX_RANK"))), key),
             std::string(value->data.bo.bytes, value->data.bo.size));
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Commit() { return PMIX_SUCCESS; }

pmix_status_t PMIx_Get(const pmix_proc_t*, const char key[], const pmix_info_t*, size_t, pmix_value_t** value) {
  const std::string number = std::strcmp(key, PMIX_JOB_SIZE) == 0     ? variable("FAKE_PMIX_SIZE")
                             : std::strcmp(key, PMIX_LOCAL_SIZE) == 0 ? variable("FAKE_PMIX_LOCAL_SIZE")
                                                                      : "";
  if (number.empty()) return PMIX_ERR_NOT_FOUND;
  *value = static_cast<pmix_value_t*>(std::calloc(1, sizeof **value));
  (*value)->type = PMIX_UINT32;
  (*value)->data.uint32 = static_cast<std::uint32_t>(std::stoul(number));
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get_nb(const pmix_proc_t* who, const char key[], const pmix_info_t* info, size_t count,
                          pmix_value_cbfunc_t answer, void* data) {
  const std::string path = path_of(who->rank, key), cached = path + ".cached-" + variable("PMIX_RANK");
  std::string content;
  if (asks_anew(info, count) || !read_file(cached, content)) {
    if (!read_file(path, content)) return PMIX_ERR_NOT_FOUND;
    write_file(cached, content);
  }
  pmix_value_t value{};
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = content.data();
  value.data.bo.size = content.size();
  answer(PMIX_SUCCESS, &value, data);
  return PMIX_SUCCESS;
}

const char* PMIx_Error_string(pmix_status_t status) {
  return status == PMIX_ERR_UNREACH ? "PMIX_ERR_UNREACH (fake)" : "an error of the fake";
}
}
