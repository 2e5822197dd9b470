-- The database of paris is there already.
CREATE DATABASE tokyo;
CREATE DATABASE lima;
