// See host_defines.h: none of this file's content is needed.
#pragma once
